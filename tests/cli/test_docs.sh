# Every JSON graph in docs/graph.md compiles; so does every command there, with its options.
awk -v work="$work" '
	/^```json/ { n++; file = work "/doc" n ".json"; next }
	/^```/     { file = ""; next }
	file != "" { print > file }' docs/graph.md
for file in "$work"/doc?.json; do
	mesh=--mesh=tp=2
	grep -q '"mesh"' "$file" && mesh=--fp8=none
	run 0 compile "$file" -o "$work/p.json" $mesh --fp8 rowwise
	run 0 show "$work/p.json"
done
run 0 compile "$work/doc1.json" -o "$work/p.json" --mesh tp=8 --fp8 rowwise
run 0 compile "$work/doc2.json" -o "$work/p.json" --mesh tp=2 --dim T=128 --fp8 tensorwise \
	--plan 'attn.q=colwise' --plan 'attn.k=colwise' --plan 'attn.v=colwise' --plan 'attn.o=rowwise' \
	--plan 'mlp.gate=colwise' --plan 'mlp.up=colwise' --plan 'mlp.down=rowwise'
out_has '7 of 7 matmuls in fp8'
out_has '     128 '
# The schema takes what the reader takes, where there is a validator.
if python3 -c 'import jsonschema' 2>/dev/null; then
	for file in "$work"/doc?.json "$work/mlp.json"; do
		python3 -c 'import json, sys, jsonschema
jsonschema.Draft202012Validator(json.load(open("docs/graph.schema.json"))).validate(json.load(open(sys.argv[1])))' \
			"$file" 2>/dev/null && pass || fail "$file does not match the schema"
	done
fi
# docs/ir.md names every op, docs/placement.md every style.
sed -nE 's/^(OP|UNARY|UNARY_BOOL|UNARY_SAME|BINARY|BINARY_BOOL|BINARY_BITS)\( *[A-Z0-9_]+, *"([a-z0-9_]+)".*/\2/p' src/ir/ops.def >"$work/ops"
[ "$(wc -l <"$work/ops")" -gt 90 ] && pass || fail "ops.def has $(wc -l <"$work/ops") ops"
while read -r op; do
	grep -qF "\`$op\`" docs/ir.md && pass || fail "docs/ir.md does not say $op"
done <"$work/ops"
run 1 compile "$work/mlp.json" -o "$work/p.json" --mesh tp=2 --plan 'fc1=none_such'
for style in $(sed 's/.*styles are //; s/,//g' "$work/.err"); do
	grep -qF "\`$style\`" docs/placement.md && pass || fail "docs/placement.md does not say $style"
done
