# compile, show, opt, passes on a small graph.
run 0 compile "$work/mlp.json" -o "$work/p.json" --mesh tp=2 --plan 'fc1=colwise' --plan 'fc2=rowwise' --fp8 rowwise
out_has '2 of 2 matmuls in fp8'
run 0 show "$work/p.json"
out_has 'mesh tp=2'
run 0 show --json "$work/p.json"
out_has '"matmuls"'

# The same input gives the same bytes; a plan file says the same as rules.
echo '{"fc1": "colwise", "fc2": "rowwise"}' >"$work/tp.json"
run 0 compile "$work/mlp.json" -o "$work/q.json" --mesh tp=2 --plan "$work/tp.json" --fp8 rowwise
same_program "$work/p.json" "$work/q.json"
run 0 compile -o - --mesh=tp=2 --plan="$work/tp.json" --fp8=rowwise -- "$work/mlp.json"
same "$work/q.json" "$work/.out"

# Recipes by pattern, later ones first.
run 0 compile "$work/mlp.json" -o "$work/q.json" --fp8 tensorwise --fp8 'fc2=none'
out_has '1 of 2 matmuls in fp8'

# Dumps are printed and written, and parse back.
run 0 compile "$work/mlp.json" -o "$work/q.json" --mesh tp=2 --dump-ir=solve --dump-dir "$work/dump" --timing
out_has '# after solve'
err_has 'import '
err_has 'lower '
err_has 'solver '
for file in "$work"/dump/*.ir; do
	run 0 opt --passes= "$file" -o "$work/again.ir"
	same "$file" "$work/again.ir"
done
run 0 compile "$work/mlp.json" -o "$work/q.json" --mesh tp=2 --print-changed
out_has '# after import'

# The whole pipeline, pass by pass, on a dump.
run 0 opt --passes=assign_recipes,place,solve,partition "$work/dump/00-import.ir" --fp8 rowwise
out_has 'stage local'
run 1 opt --passes=partition "$work/dump/00-import.ir"
err 'pass partition takes a graph of stage placed, this one is of stage global'
run 1 opt --passes=partitoin "$work/dump/00-import.ir"
err "--passes: there is no pass 'partitoin'; 'fp8shard passes' lists them"

# The mesh of a text form is its own.
run 1 opt --passes= "$work/dump/00-import.ir" --mesh tp=4
err "--mesh: $work/dump/00-import.ir is a graph for the mesh tp=2"
sed '/^mesh/d' "$work/dump/00-import.ir" >"$work/bare.ir"
run 0 opt --passes= "$work/bare.ir" --mesh tp=2
same "$work/.out" "$work/dump/00-import.ir"
run 1 opt --passes= "$work/bare.ir" --dim B=2
err '--dim B: the text form has no named dims'

# Reports.
run 0 compile "$work/mlp.json" -o "$work/q.json" --fp8 rowwise --report "$work/report.txt"
grep -q '^2 of 2 matmuls in fp8' "$work/report.txt" && pass || fail "$work/report.txt"
run 0 compile "$work/mlp.json" -o "$work/q.json" --fp8 rowwise --report "$work/report.json"
grep -q '"fp8shard": "report"' "$work/report.json" && pass || fail "$work/report.json"
run 1 compile "$work/mlp.json" -o "$work/none.json" --fp8 rowwsie --report "$work/report.json"
grep -q '"error": "--fp8' "$work/report.json" && pass || fail "$work/report.json"

run 0 passes
out_has 'solve '
run 0 passes --markdown
same "$work/.out" docs/passes.md

# A training step: the table says what each product is to the loss, and a note what is gathered as it is, and why.
run 0 compile tests/suite/40_mlp_sp_step.json -o "$work/step.json" --fp8 rowwise
out_has 'fc2    grad_weight     4096    16384     4096  rowwise'
err_has '2 values are gathered once in high precision, as products cast them in several ways (docs/numerics.md): x, gy'
run 0 compile tests/suite/40_mlp_sp_step.json -o "$work/step.json" --fp8 rowwise_with_gw_hp
out_has 'in high precision by rowwise_with_gw_hp'
run 0 compile tests/suite/40_mlp_sp_step.json -o "$work/step.json" --fp8 tensorwise
[ ! -s "$work/.err" ] && pass || fail 'a note of what is gathered as codes'
run 0 explain "$work/step.json" reduce_scatter
out_has 'scaled_matmul mk,kn->mn (grad_input) splits k'
