#!/bin/sh
# `make suite`: what plans send, against the best known (table.txt); and the families run on random data:
# what shards compute is what one rank computes (fp8shard-run --check).
#
#   BUILD=dir   the build folder
cd "$(dirname "$0")/../.." || exit 2
build=${BUILD:-build}
for tool in fp8shard fp8shard-run suite/suite suite/data; do
	[ -x "$build/$tool" ] || { echo "tests/suite/run.sh: there is no program $build/$tool; run make suite" >&2; exit 2; }
done
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 2' HUP INT TERM
passed=0
failed=0

# sharded CASE MESH BOUND ARGUMENT...: of a small form of the case, and BOUND for its integers.
sharded() {
	name=$1 mesh=$2 bound=$3
	shift 3
	if "$build/fp8shard" compile "tests/suite/$name.json" -o "$work/plan.json" --mesh "$mesh" "$@" >"$work/log" 2>&1 &&
		"$build/suite/data" "$work/plan.json" "$work/w.safetensors" "$work/i.safetensors" "$bound" 2>"$work/log" &&
		"$build/fp8shard-run" "$work/plan.json" --weights "$work/w.safetensors" --inputs "$work/i.safetensors" --check >"$work/log" 2>&1
	then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED $name --mesh $mesh $*: $(tail -n 3 "$work/log")"
	fi
}

"$build/suite/suite" tests/suite/table.txt | tee "$work/table"
tail -n 1 "$work/table" | { read -r p _ f _; echo "$p $f" >"$work/sums"; }
read -r passed failed <"$work/sums"
for fp8 in none rowwise tensorwise; do
	for target in h100 cpu; do
		how="--fp8 $fp8 --target $target"
		# shellcheck disable=SC2086
		{
			sharded 30_experts_2d dp=2,ep=4 2 --dim E=8 --dim C=24 --dim H=32 --dim F=48 $how
			sharded 30_experts_2d dp=2,ep=3 2 --dim E=7 --dim C=13 --dim H=32 --dim F=48 $how
			sharded 31_experts_tp ep=4,tp=2 2 --dim E=8 --dim C=24 --dim H=32 --dim F=48 $how
			for mesh in tp=2 tp=4 tp=7; do
				sharded 32_vocab_loss $mesh 48 --dim T=24 --dim V=48 --dim H=32 $how
			done
			sharded 33_context cp=4 2 --dim T=40 $how
			sharded 34_context_uneven cp=4 2 --dim T=39 $how
			sharded 34_context_uneven cp=7 2 --dim T=39 $how
			sharded 35_few_key_heads tp=8 2 --dim T=40 $how
			sharded 36_hsdp dp=2,fsdp=4 2 --dim T=64 --dim H=32 --dim F=32 $how
			sharded 36_hsdp dp=3,fsdp=2 2 --dim T=50 --dim H=48 --dim F=32 --reduce-dtype f32 $how
			sharded 37_three_axes dp=2,cp=2,tp=2 2 --dim B=4 --dim T=16 --dim H=32 --dim F=64 $how
			sharded 39_fsdp_tp dp=2,tp=2 1 --dim T=16 --dim H=32 --dim F=64 $how
			sharded 41_fsdp_cp_tp dp=2,cp=2,tp=2 1 --dim B=4 --dim T=16 --dim H=32 --dim F=64 $how
			sharded 42_four_axes dp=2,fsdp=2,cp=2,tp=2 2 --dim B=4 --dim T=16 --dim H=32 --dim F=64 $how
			sharded 43_fsdp_two_axes dp=2,fsdp=2,tp=2 2 --dim T=40 --dim H=32 --dim F=64 $how
			sharded 38_three_axes_uneven dp=2,cp=3,tp=2 2 --dim B=3 --dim T=17 --dim H=32 --dim F=80 $how
		}
	done
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
