#!/bin/sh
# The main job on a small trained model: compile for 4 ranks in rowwise fp8, look inside, run, compare with
# bf16 on one rank.  `make demo` builds what it needs and calls this.  BUILD: folder of the programs (build).
set -e
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
model=examples/tiny-llama
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

run() { # PLAN: runs it on the example's weights and input
	"$BUILD/fp8shard-run" "$1" --weights $model/weights.safetensors --inputs $model/inputs.safetensors -o "$2"
}

echo "== compile for 4 ranks, rowwise fp8"
"$BUILD/fp8shard" compile $model/model.json -o "$out/fp8.json" --mesh tp=4 --plan $model/tp_plan.json --fp8 rowwise
echo
echo "== what is in the plan"
"$BUILD/fp8shard" show "$out/fp8.json"
echo
echo "== run it: 4 ranks, fp8"
run "$out/fp8.json" "$out/fp8.safetensors"
"$BUILD/examples/next_byte" "$out/fp8.safetensors" $model/labels.safetensors
echo
echo "== the same model on one rank in bf16"
"$BUILD/fp8shard" compile $model/model.json -o "$out/bf16.json" >"$out/table"
run "$out/bf16.json" "$out/bf16.safetensors"
"$BUILD/examples/next_byte" "$out/bf16.safetensors" $model/labels.safetensors
