#!/bin/sh
# What is fast and what is not, as ratios against a peer in the same run.  BUILD: folder of the programs (build).
cd "$(dirname "$0")/../.." || exit 2
BUILD=${BUILD:-build}
shared=${FP8SHARD_SHARED:-../shared}
graph=$shared/graphs/llama3-8b-training.json.gz

echo "== fp8 products against the better of OpenBLAS and BLIS sgemm (bar 0.9)"
"$BUILD/bench/bench_matmul"
echo "== the step of an MLP on two ranks against its bare sgemms (bar 1.25) and torch"
"$BUILD/bench/bench_step"
echo "== compiles of Llama-3-8B against jansson's parse of the file"
plan=$shared/models/llama-tiny-bf16-training/tp_plan.json
if [ -f "$graph" ]; then
	"$BUILD/bench/bench_compile" "$BUILD/fp8shard" "$graph" --mesh tp=8 --fp8 rowwise --plan "$plan"
	"$BUILD/bench/bench_compile" "$BUILD/fp8shard" "$graph" --mesh dp=64,tp=8 --plan "$plan" \
		--place '**.weight=dp:S(0)' --place 'input_ids=dp:S(1)'
else
	echo "skipped: no $graph"
fi
echo "== compiles by layers (time ~ layers^e, e at most 1.1) and by ranks"
layers_file=$(mktemp) || exit 2
trap 'rm -f "$layers_file"' EXIT
generated() {
	sh tests/bench/llama.sh "$1" >"$layers_file"
	"$BUILD/bench/bench_compile" "$BUILD/fp8shard" "$layers_file" --mesh "$2" --place '**.weight=dp:S(0)' --place 'ids=dp:S(1)' \
		--plan 'layers.*.self_attn.o_proj=rowwise' --plan 'layers.*.mlp.down_proj=rowwise' \
		--plan 'layers.*.mlp.gate_proj=colwise' --plan 'layers.*.self_attn.q_proj=colwise' --fp8 rowwise | sed "s/^/$1 layers, $2: /"
}
for layers in 8 16 32 64 128; do generated $layers dp=64,tp=8; done |
	awk '{ print; t[$1] = $(NF - 1) } END { printf "e = %.2f\n", log(t[128] / t[8]) / log(16) }'
for ranks in dp=2,tp=4 dp=16,tp=8 dp=256,tp=8 dp=2048,tp=8; do generated 32 $ranks; done
echo "== collectives of threads against memcpy of the same bytes"
"$BUILD/bench/bench_comm"
