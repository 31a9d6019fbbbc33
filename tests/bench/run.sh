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
echo "== a whole compile of Llama-3-8B against jansson's parse of the file"
if [ -f "$graph" ]; then
	"$BUILD/bench/bench_compile" "$BUILD/fp8shard" "$graph" --mesh tp=8 --fp8 rowwise \
		--plan "$shared/models/llama-tiny-bf16-training/tp_plan.json"
else
	echo "skipped: no $graph"
fi
echo "== collectives of threads against memcpy of the same bytes"
"$BUILD/bench/bench_comm"
echo "== the solver's core on Llama chains"
"$BUILD/bench/bench_eliminate"
