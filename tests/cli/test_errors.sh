# What a user can get wrong: one line, exit status 1, no output file.
compile() {
	run 1 compile "$@" -o "$work/none.json"
	no_file "$work/none.json"
}

compile "$work/nothing.pt2"
err_has "$work/nothing.pt2: "
: >"$work/empty"
compile "$work/empty"
err "$work/empty: is none of what can be read: a torch.export archive (.pt2) or its JSON, a JSON graph (\"fp8shard\": \"graph\") or the text form"
echo '{"weight_map": {"graph_module": 1}, "s": "\"fp8shard\": {"}' >"$work/other.json"
compile "$work/other.json"
err "$work/other.json: is JSON, but neither of torch.export (\"graph_module\") nor a graph (\"fp8shard\": \"graph\")"
echo '{"version": 1, "fp8shard": "plan"}' >"$work/plan.json"
compile "$work/plan.json"
err "$work/plan.json: is a plan, not a graph; fp8shard-run runs it, fp8shard show shows it"
gzip -c "$work/mlp.json" >"$work/mlp.json.gz"
compile "$work/mlp.json.gz"
err "$work/mlp.json.gz: is compressed; gunzip it first"
compile tests/data/import/tiny.safetensors
err 'tests/data/import/tiny.safetensors: holds weights (safetensors), not a graph; give it to fp8shard-run --weights'
head -c 3000 tests/data/import/tiny.pt2 >"$work/cut.pt2"
compile "$work/cut.pt2"
compile "$work"
err_has "$work: "

compile "$work/mlp.json" --mesh tp=0
err_has '--mesh: '
compile "$work/mlp.json" --plan "$work/nothing.json"
err_has '--plan: '
compile "$work/mlp.json" --plan fc1
err "--plan 'fc1': a file that there is, or PATTERN=STYLE wanted"
compile "$work/mlp.json" --mesh tp=2 --plan 'fc1=columnwise'
err_has "'columnwise' is no style"
compile "$work/mlp.json" --mesh tp=2 --plan 'fc7=colwise'
err_has "--plan: 'fc7' matches no parameter; nearest: 'fc1'"
compile "$work/mlp.json" --mesh tp=2 --place 'x'
err "--place 'x': VALUE=PLACEMENT, as in 'x=dp:S(0)' wanted"
compile "$work/mlp.json" --mesh tp=2 --place 'x=ep:S(0)'
err_has "the mesh has no axis 'ep' (it has tp=2)"
compile "$work/mlp.json" --mesh tp=2 --place 'x=tp:S(0),tp:R'
err "--place 'x=tp:S(0),tp:R': 'tp:S(0),tp:R' places the axis 'tp' twice"
compile "$work/mlp.json" --fp8 rowwsie
err_has '--fp8: '
compile "$work/mlp.json" --scale-scope tp=near
err "--scale-scope 'tp=near': the scope is local or global"
compile "$work/mlp.json" --dim B=many
err "--dim 'B=many': the size is no number of 0 or more"
compile "$work/mlp.json" --dim B=2 --dim C=2 --dim B=2
err "--dim 'B=2': the size of B is given twice"
compile "$work/mlp.json" --dim B=2
err "--dim B: $work/mlp.json has no dim of that name under \"dims\""
named=tests/data/dims/named/model.json # s23 from 0 on, s27 from 2 to 64
for size in 0 1 65 1000000; do
	compile $named --dim s27=$size
	err "$named: dim s27 = $size is outside the range that the export declares: 2 to 64"
done
compile $named --dim seq=4
err "$named: --dim seq=4: the graph has no such dim; it has s23 (ids.shape[0]), s27 (ids.shape[1])"
compile $named --dim s23=9223372036854775807
err "$named: 'ids': input: more than 2^48 elements"
compile tests/data/dims/pairs/model.json --dim s44=4611686018427387904 # twice that is no 64-bit number
err_has "pairs/model.json: input 'x': size '"
guarded=tests/data/dims/guarded/model.json # x and y have 8 and 9 rows
relies="$guarded: the export does not hold for these sizes; it relies on:"
compile $guarded --dim s77=10
err_has "$relies L['x'].size()[0] <= L['y'].size()[0]"
compile $guarded --dim s77=5
err_has "$relies (16*L['x'].size()[0]) == (32*(L['x'].size()[0] // 2))"
compile $guarded --dim s77=2
err_has "$relies (L['x'].size()[0] // 2) != 1"
compile tests/data/dims/branch/model.json --dim s6=9 # torch took the branch of even sizes; a strict export
err_has "branch/model.json: the export does not hold for these sizes; it relies on: (L['flat_args'][0].size()[0] % 2) == 0"
sed 's/aten.view_as_real.default/aten.exp.default/' tests/data/dims/rotary/model.json >"$work/complex.json"
compile "$work/complex.json"
err_has 'aten.exp.default of complex numbers is not supported, at '
sed 's/aten.view_as_complex.default/aten.view_as_real.default/' tests/data/dims/rotary/model.json >"$work/complex.json"
compile "$work/complex.json"
err_has 'aten.view_as_real.default of real numbers is not supported, at '
compile "$work/mlp.json" --target tpu
err "--target 'tpu' is unknown; there are h100, h200, b200 and cpu"
compile "$work/mlp.json" --reduce-dtype f16
err "--reduce-dtype 'f16': there is only f32"
compile "$work/mlp.json" --dump-ir=slove
err "--dump-ir: there is no pass 'slove'; 'fp8shard passes' lists them"
compile "$work/mlp.json" --dump-dir "$work/nothing/dump"
err_has '--dump-dir '

# Nothing that is read is written over, and no two outputs are one file.
run 1 compile "$work/mlp.json" -o "$work/mlp.json"
err "-o $work/mlp.json: that is an input; name another file"
ln -s mlp.json "$work/link.json"
run 1 compile "$work/mlp.json" -o "$work/link.json"
err_has "that is an input"
echo '{"fc1": "colwise", "fc2": "rowwise"}' >"$work/tp.json"
cp "$work/tp.json" "$work/tp_before.json"
for option in -o --report; do
	run 1 compile "$work/mlp.json" --mesh tp=2 --plan "$work/tp.json" -o "$work/p.json" $option "$work/tp.json"
	err "$option $work/tp.json: that is an input; name another file"
done
same "$work/tp.json" "$work/tp_before.json"
for option in --dump-ir --dump-ir=solve --print-changed; do
	run 1 compile "$work/mlp.json" -o - $option
	err '-o -: --dump-ir and --print-changed print there; name a file, or use --dump-dir'
done
run 1 compile "$work/mlp.json" -o "$work/p.json" --mesh tp=2 --plan fc2=rowwise --exact
err_has 'around y (fc2): a parameter with a tensor-parallel style may not be gathered, and --exact splits no sum'
run 1 compile "$work/mlp.json" -o "$work/one.json" --report "$work/one.json"
err "--report $work/one.json: that is the file of -o; name another one"
no_file "$work/one.json"
run 1 compile "$work/mlp.json" -o "$work/nothing/p.json"
err_has "$work/nothing/p.json: "
run 1 compile "$work/mlp.json" -o "$work/p.json" --report "$work/mlp.json"
err "--report $work/mlp.json: that is an input; name another file"
run 1 show "$work/mlp.json"
run 1 show "$work/plan.json"

# A plan edited by hand.
run 0 compile "$work/mlp.json" -o "$work/p.json" --mesh tp=2
sed 's/"gelu"/"relu"/' "$work/p.json" >"$work/edited.json"
run 1 show "$work/edited.json"

# A full disk, and a limit on file sizes: nothing is left behind.
if [ -w /dev/full ]; then
	run 1 compile "$work/mlp.json" -o /dev/full
	"$tool" passes >/dev/full 2>"$work/.err"
	[ $? -eq 1 ] && pass || fail 'passes to a full disk'
	"$tool" --help >/dev/full 2>"$work/.err"
	[ $? -eq 1 ] && pass || fail 'help to a full disk'
	err 'standard output: No space left on device'
fi
mkdir "$work/limited"
(ulimit -f 0; "$tool" compile "$work/mlp.json" -o "$work/limited/p.json" 2>&1 | cat >/dev/null)
[ -z "$(ls "$work/limited")" ] && pass || fail 'a file is left behind'

# Names with control characters: the message stays one line and sends no escapes to the terminal.
odd=$(printf 'a\nb\033[31m')
run 1 compile "$work/$odd.json" -o "$work/p2.json"
[ "$(wc -l <"$work/.err")" -eq 1 ] && pass || fail 'more than one line'
err_has 'a\x0ab\x1b[31m.json'
run 1 compile "$work/mlp.json" -o "$work/p2.json" --mesh tp=2 --place "$odd=tp:R"
[ "$(wc -l <"$work/.err")" -eq 1 ] && pass || fail 'more than one line'
no_file "$work/p2.json"

# A pipe as the output; a folder of dumps that a file name does not fit into.
mkfifo "$work/pipe"
cat "$work/pipe" >"$work/piped" &
run 0 compile "$work/mlp.json" -o "$work/pipe" --mesh tp=2
wait
run 0 compile "$work/mlp.json" -o "$work/p.json" --mesh tp=2
same "$work/p.json" "$work/piped"
if [ -w /dev/full ]; then
	mkdir "$work/dumps"
	ln -s /dev/full "$work/dumps/00-import.ir"
	run 1 compile "$work/mlp.json" -o "$work/p3.json" --dump-dir "$work/dumps"
	err_has '--dump-dir: '
	no_file "$work/p3.json"
fi
