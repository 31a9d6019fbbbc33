# Help, versions, and command lines that are none.
run 0 --help
out_has 'fp8shard compile model.pt2 -o plan.json'
out_has 'exit status: 0 done'
run 0 --version
out_has 'fp8shard 0.'
for command in compile opt show passes; do
	run 0 $command --help
	out_has "usage: fp8shard $command"
	out_has 'example:'
done
run 0 compile --help
for option in -o --mesh --plan --place --fp8 --scale-scope --fp8-auto --reduce-dtype --exact --dim --target --dump-ir \
	--dump-dir --print-changed --timing --report; do
	out_has "  $option"
done
run 2
err_has 'usage: fp8shard'
run 2 compyle
err_has "fp8shard: unknown command 'compyle'"
run 2 compile
err_has 'usage: fp8shard compile FILE -o PLAN'
run 2 compile "$work/mlp.json"
err_has 'compile needs -o FILE'
run 2 compile "$work/mlp.json" -o
err_has '-o needs an argument'
run 2 compile "$work/mlp.json" -o "$work/unwanted.json" --fast
err_has "unknown option '--fast'"
run 2 compile "$work/mlp.json" other -o "$work/unwanted.json"
err_has 'one argument too many'
run 2 compile "$work/mlp.json" -o "$work/unwanted.json" --exact=yes
err_has '--exact takes no argument'
run 2 show "$work/unwanted.json" --mesh tp=2
run 2 passes x
run 2 opt "$work/mlp.json"
err_has 'opt needs --passes'
no_file "$work/unwanted.json"
