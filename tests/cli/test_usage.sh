# Help, versions, and command lines that are none.
run 0 --help
out_has 'fp8shard compile model.pt2 -o plan.json'
out_has 'exit status: 0 done'
run 0 --version
out_has 'fp8shard 0.'
for command in compile opt show explain estimate passes; do
	run 0 $command --help
	out_has "usage: fp8shard $command"
	out_has 'example:'
done
run 0 compile --help
for option in -o --mesh --plan --place --fp8 --scale-scope --fp8-auto --reduce-dtype --exact --dim --target --dump-ir \
	--dump-dir --print-changed --timing --report --optimizer --clip-norm --keep-gradients; do
	out_has "  $option"
done
run 1
err_has 'no command; see fp8shard --help'
run 1 compyle
err_has "fp8shard: unknown command 'compyle'"
run 1 compile
err_has 'compile needs a file; see fp8shard compile --help'
run 1 compile "$work/mlp.json"
err_has 'compile needs -o FILE'
run 1 compile "$work/mlp.json" -o
err_has '-o needs an argument'
run 1 compile "$work/mlp.json" -o "$work/unwanted.json" --fast
err_has "unknown option '--fast'"
run 1 compile "$work/mlp.json" other -o "$work/unwanted.json"
err_has 'one argument too many'
run 1 compile "$work/mlp.json" -o "$work/unwanted.json" --exact=yes
err_has '--exact takes no argument'
run 1 show "$work/unwanted.json" --mesh tp=2
run 1 passes x
run 1 opt "$work/mlp.json"
err_has 'opt needs --passes'
no_file "$work/unwanted.json"
run 1 compile "$work/mlp.json" -o "$work/unwanted.json" --dump-ir=
err_has "there is no pass ''"
run 1 opt --passes=fold,,place "$work/mlp.json"
err_has "there is no pass ''"
no_file "$work/unwanted.json"
