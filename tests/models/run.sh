#!/bin/sh
# Exported models against what torch made of them: compiles each for several meshes and recipes, runs the plans,
# and holds the outputs to the bars of tests/models/compare.c.
#
#   tests/models/run.sh [-v] [--small] [DIR]...
#
# Models: the folders of ${FP8SHARD_SHARED:-../shared}/models, and where there are none, or with --small, the
# copies of the smallest in tests/data/models.  -v: a line for each case, not only for those that fail.
# --small takes two meshes instead of four.  BUILD: where the programs are (build).
cd "$(dirname "$0")/../.." || exit 2
BUILD=${BUILD:-build}
compare=$BUILD/models/compare
training=$BUILD/models/training
shared=${FP8SHARD_SHARED:-../shared}/models
meshes='tp=1 tp=2 tp=4 dp=2,tp=2'
verbose=
small=
while :; do
	case $1 in
	-v) verbose=1 ;;
	--small) small=1 meshes='tp=1 dp=2,tp=2' ;;
	*) break ;;
	esac
	shift
done
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 2' HUP INT TERM
passed=0
failed=0

# result STATUS CASE: what was said of it is in work/say.
result() {
	if [ "$1" -eq 0 ]; then
		passed=$((passed + 1))
		[ -z "$verbose" ] || echo "ok     $2: $(tr '\n' ' ' <"$work/say")"
	else
		failed=$((failed + 1))
		echo "FAILED $2: $(head -c 400 "$work/say" | tr '\n' ' ')"
	fi
}

has() {
	[ -e "$1/$2" ]
}

# --- one run ---

model_of() {
	if has "$1" model.pt2; then echo "$1/model.pt2"; else echo "$1/model.json"; fi
}

weights_of() {
	if ! has "$1" case.json; then
		echo "$1/weights.safetensors"
	elif has "$1" model.pt2 && [ "$("$compare" field "$1" pt2_has_weights)" = true ]; then
		echo "$1/model.pt2"
	else
		echo "$1/$("$compare" field "$1" weights_file)"
	fi
}

# compile DIR MESH RECIPE PLAN OPTION...
compile() {
	dir=$1 mesh=$2 recipe=$3 plan=$4
	shift 4
	case $mesh in *tp*) has "$dir" tp_plan.json && set -- --plan "$dir/tp_plan.json" "$@" ;; esac
	timeout 300 "$BUILD/fp8shard" compile "$(model_of "$dir")" -o "$plan" --mesh "$mesh" --fp8 "$recipe" "$@" \
		>"$work/log" 2>"$work/say"
}

# run_plan DIR PLAN INPUTS OUT
run_plan() {
	timeout 300 "$BUILD/fp8shard-run" "$2" --weights "$(weights_of "$1")" --inputs "$3" -o "$4" \
		>"$work/log" 2>"$work/say"
}

# run DIR MESH RECIPE OUT OPTION...: leaves the plan in work/plan.json.
run() {
	run_dir=$1 run_mesh=$2 run_recipe=$3 run_out=$4
	shift 4
	rm -f "$run_out"
	compile "$run_dir" "$run_mesh" "$run_recipe" "$work/plan.json" "$@" &&
		run_plan "$run_dir" "$work/plan.json" "$run_dir/inputs.safetensors" "$run_out"
}

# --- kinds of checks; each gets a folder ---

is_fp8() {
	[ "$1" != none ]
}

# The matmuls in fp8 are those that torch swapped.
check_swapped() {
	"$BUILD/fp8shard" show "$work/plan.json" --json >"$work/show.json" 2>>"$work/say" &&
		"$compare" swapped "$1" "$work/show.json" "$2" >>"$work/say" 2>&1
}

# Unsharded fp8 in float32 against torch's: the MLPs in all but rounding; in deeper models one flipped code cascades.
oracle_bar() {
	case $1 in *llama*) echo 30 ;; *) echo 100 ;; esac
}

# torch's run of hops-training did not see the matmul in a wrapped region.
check_oracle() {
	[ "${1##*/}" != hops-training ] || set -- "${1%training}inference" "$2"
	[ "$("$compare" field "$1" dtype)" = float32 ] && has "$1" fp8_expected.safetensors || return 0
	"$compare" oracle "$1" "$work/out" "$2" "$(oracle_bar "${1##*/}")" >>"$work/say" 2>&1
}

judge() {
	"$compare" outputs "$1" "$work/out" "$2" >"$work/say" 2>&1 || return 1
	! is_fp8 "$2" || check_swapped "$1" "$2" || return 1
	! is_fp8 "$2" || [ "$3" != tp=1 ] || check_oracle "$1" "$2"
}

check_outputs() {
	for recipe in none tensorwise rowwise; do
		for mesh in $meshes; do
			run "$1" "$mesh" "$recipe" "$work/out" && judge "$1" "$recipe" "$mesh"
			result $? "${1##*/} $mesh $recipe"
		done
	done
}

# The result of an exact plan does not hang on the mesh.
check_bits() {
	for recipe in tensorwise rowwise; do
		rm -f "$work/first"
		for mesh in tp=1 tp=2 tp=3 tp=4; do
			: >"$work/say"
			run "$1" "$mesh" "$recipe" "$work/out" --exact --scale-scope tp=global
			status=$?
			[ -e "$work/first" ] || cp "$work/out" "$work/first" 2>/dev/null
			if [ $status -eq 0 ] && ! cmp -s "$work/first" "$work/out"; then
				echo "not the bits of tp=1: $(cmp "$work/first" "$work/out")" >"$work/say"
				status=1
			fi
			result $status "${1##*/} $mesh $recipe --exact"
		done
	done
}

# Eight sentences in two halves: each one's nearest neighbour is its partner, in fp8 on 4 ranks.
check_neighbours() {
	for recipe in tensorwise rowwise; do
		compile "$1" tp=4 "$recipe" "$work/plan.json" &&
			"$compare" rows "$1" "$work/rows.0" 0 4 >"$work/say" && "$compare" rows "$1" "$work/rows.1" 4 4 >"$work/say" &&
			run_plan "$1" "$work/plan.json" "$work/rows.0" "$work/half.0" &&
			run_plan "$1" "$work/plan.json" "$work/rows.1" "$work/half.1" &&
			"$compare" neighbours div_1 "$work/half.0" "$work/half.1" >"$work/say" 2>&1
		result $? "${1##*/} tp=4 $recipe: neighbours"
	done
}

check_loss() {
	for recipe in tensorwise rowwise; do
		run "$1" tp=4 "$recipe" "$work/out" && "$compare" loss "$1" "$work/out" 0.5 >"$work/say" 2>&1
		result $? "${1##*/} tp=4 $recipe: loss"
	done
}

# A graph that holds fp8 already (tests/data/fp8): its matmuls are lifted, and sharded; --fp8 adds nothing to them.
check_lifted() {
	lifted=$("$compare" field "$1" recipe)
	rm -f "$work/first"
	for ranks in tp=1 tp=2 tp=3 tp=4; do
		case $1,$ranks in */blocks,tp=3) continue ;; esac # cuts blocks
		for exact in '' '--exact --scale-scope tp=global'; do
			[ "$lifted" != none ] || [ -z "$exact" ] || continue # sums of no fp8 matmul are split
			# shellcheck disable=SC2086
			run "$1" "$ranks" none "$work/out" --plan fc1=colwise --plan fc2=rowwise $exact && judge_lifted "$1" "$ranks" "$exact"
			result $? "fp8/${1##*/} $ranks $exact"
		done
	done
	check_not_twice "$1"
}

judge_lifted() {
	"$compare" oracle "$1" "$work/out" high "$("$compare" field "$1" high)" >"$work/say" 2>&1 || return 1
	"$BUILD/fp8shard" show "$work/plan.json" >"$work/log" || return 1
	reason=$("$compare" field "$1" reason)
	[ "$(grep "^  fc[12] .* $lifted  " "$work/log" | grep -c "  $reason\$")" -eq 2 ] ||
		{ echo "not two matmuls of $lifted, $reason" >"$work/say" && return 1; }
	case $3,$lifted,$2 in ,none,* | *,tp=1 | --exact*) ;; *) return 0 ;; esac
	"$compare" oracle "$1" "$work/out" torch "$("$compare" field "$1" torch)" >"$work/say" 2>&1 || return 1
	[ -n "$3" ] || return 0
	[ -e "$work/first" ] || cp "$work/out" "$work/first"
	cmp "$work/first" "$work/out" >"$work/say" 2>&1
}

# A recipe for all leaves what was lifted as it is; of stored weights it takes the codes, where it can.
check_not_twice() {
	case $lifted,${1##*/} in
	none,blocks) same=1 said='none  *fp8 codes with scales of blocks' ;;
	none,*) same= said="rowwise  *the weight's codes and scale as stored" ;;
	*) same=1 said="$lifted  *lifted" ;;
	esac
	run "$1" tp=2 none "$work/first" && run "$1" tp=2 rowwise "$work/out" &&
		"$BUILD/fp8shard" show "$work/plan.json" >"$work/log" && [ "$(grep -c "^  fc[12] .* $said" "$work/log")" -eq 2 ] &&
		if [ -n "$same" ]; then cmp "$work/first" "$work/out" >"$work/say" 2>&1; else
			"$compare" oracle "$1" "$work/out" high 24 >"$work/say" 2>&1; fi
	result $? "fp8/${1##*/} --fp8 rowwise"
}

# An export with symbolic sizes (tests/data/dims): each folder NAME=SIZE,... of it is a set of sizes and what torch
# makes of it; sharded on a dim of that size and on features, none of which need divide.
check_dims() {
	for at in "$1"/*=*/; do
		dims=$(basename "$at" | sed 's/^/--dim /; s/,/ --dim /g')
		for mesh in tp=1 tp=2 tp=4 dp=2,tp=2; do
			: >"$work/say"
			rm -f "$work/out"
			# shellcheck disable=SC2086
			compile "$1" "$mesh" none "$work/plan.json" --plan fc1=colwise --plan fc2=rowwise --place 'x=tp:S(0)' $dims &&
				run_plan "$1" "$work/plan.json" "$at/inputs.safetensors" "$work/out" &&
				"$compare" outputs "${at%/}" "$work/out" none >"$work/say" 2>&1
			result $? "dims/${1##*/} $(basename "$at") $mesh"
		done
	done
}

# Gradients: those of torch's joint graph, and ours of its forward.  FSDP: each parameter sharded on its first dim.
check_gradients() {
	loss=$("$compare" name "$1" loss_output)
	for mesh in tp=1 tp=2 tp=4 dp=2,tp=2 dp=4; do
		case $mesh in dp=4) place="--place **.weight=dp:S(0)" ;; *) place= ;; esac
		# shellcheck disable=SC2086
		run "$1" "$mesh" none "$work/out" $place && "$compare" outputs "$1" "$work/out" none >"$work/say" 2>&1
		result $? "${1##*/} $mesh"
		# shellcheck disable=SC2086
		run "$1" "$mesh" none "$work/out" $place --train --loss "$loss" && "$compare" gradients "$1" "$work/out" >"$work/say" 2>&1
		result $? "${1##*/} $mesh --train"
	done
}

# A training step in fp8 does not hang on the mesh, all its gradients included: by tokens (sequence parallel) and by rows.
check_step_bits() {
	case ${1##*/} in
	mlp-*) tokens='--place x=tp:S(1)' rows='--place x=dp:S(0)' ;;
	*) rows='--place input_ids=dp:S(0)'
		tokens=$(for value in embedding add_7 add_9 add_14 add_18 add_22 add_30; do printf ' --place %s' "$value=tp:S(1)"; done) ;;
	esac
	for recipe in tensorwise rowwise rowwise_with_gw_hp; do
		rm -f "$work/first"
		for how in 'tp=1' 'tp=2' 'tp=4' "tp=2 $tokens" "tp=4 $tokens" "dp=2,tp=2 --scale-scope dp=global $rows"; do
			# shellcheck disable=SC2086
			run "$1" "${how%% *}" $recipe "$work/out" --exact --scale-scope tp=global $(echo "$how " | cut -d ' ' -f 2-)
			status=$?
			[ -e "$work/first" ] || cp "$work/out" "$work/first" 2>/dev/null
			[ $status -ne 0 ] || cmp "$work/first" "$work/out" >"$work/say" 2>&1 || status=1
			result $status "${1##*/} $how $recipe --exact"
		done
	done
}

# Blocks that are computed again take less memory, and change no bit.
check_recompute() {
	for case in tp=1,none dp=2,none tp=1,tensorwise; do
		mesh=${case%,*} recipe=${case#*,}
		rm -f "$work/first"
		for again in none block '**.mlp:2'; do
			run "$1" "$mesh" "$recipe" "$work/out" --exact --train --loss cross_entropy:input_ids --recompute "$again"
			status=$?
			case $again in none) mv "$work/out" "$work/first"; most=$(bytes_of arena) ;; esac
			[ $status -ne 0 ] || [ "$again" = none ] || {
				cmp "$work/first" "$work/out" && [ "$(bytes_of arena)" -lt "$most" ]; } >"$work/say" 2>&1 || status=1
			result $status "${1##*/} $mesh $recipe --recompute $again"
		done
	done
}

# arena, params: bytes of a rank in work/plan.json
bytes_of() {
	sed -n "s/^\"memory\":.*\"$1\":\([0-9]*\).*/\1/p" "$work/plan.json"
}

# AdamW from the start and on the batches of torch's run, against its curves.  TRAIN_STEPS=N: of its 300 (100).
check_training() {
	for mesh in tp=1 dp=2,tp=2; do
		case $mesh in dp*) place="--place input_ids=dp:S(0) --place labels=dp:S(0)" ;; *) place= ;; esac
		rm -f "$work/log.jsonl"
		# shellcheck disable=SC2086
		compile "$1" $mesh none "$work/$mesh.json" $place --train --loss cross_entropy:labels \
			--optimizer adamw:beta1=0.9,beta2=0.95,eps=1e-8,weight_decay=0.1 &&
			train_model "$1" "$work/$mesh.json" "${TRAIN_STEPS:-100}" --weights "$1/weights.safetensors" --log "$work/log.jsonl"
		result $? "${1##*/} $mesh: ${TRAIN_STEPS:-100} steps"
		head -n 100 "$work/log.jsonl" >"$work/log.100"
		judge_curve "$1" "$mesh" loss "$work/log.100" 1 0.1
		judge_curve "$1" "$mesh" loss "$work/log.jsonl" 20 0.5
		head -n 20 "$work/log.jsonl" >"$work/log.20"
		judge_curve "$1" "$mesh" grad_norm "$work/log.20" 1 0.1
	done
	check_param_norm "$1"
}

# train_model DIR PLAN STEPS OPTION...
train_model() {
	train_dir=$1 train_plan=$2 train_steps=$3
	shift 3
	timeout 600 "$BUILD/fp8shard-run" "$train_plan" --train --data "$train_dir/train.safetensors" --steps "$train_steps" --lr 1e-3 "$@" \
		>"$work/log" 2>"$work/say"
}

# judge_curve DIR MESH KEY LOG WINDOW PERCENT
judge_curve() {
	"$training" curve "$1/loss.safetensors" "$3" "$4" "$3" "$5" "$6" >"$work/say" 2>&1
	result $? "${1##*/} $2: $3, means over $5"
}

# A step at a time, each from the last one's checkpoint and on the other mesh.
check_param_norm() {
	rm -rf "$work/run"
	from="--weights $1/weights.safetensors"
	for step in $(seq 20); do
		mesh=tp=1
		[ $((step % 2)) -eq 0 ] || mesh=dp=2,tp=2
		# shellcheck disable=SC2086
		train_model "$1" "$work/$mesh.json" "$step" $from --checkpoint "$work/run" &&
			"$training" norm "$1/loss.safetensors" param_norm "$step" "$work/run/step-$(printf %08d "$step")" 0.1 >"$work/say" 2>&1
		result $? "${1##*/}: norm of the parameters after step $step"
		from="--resume $work/run"
	done
}

is_forward() {
	has "$1" case.json && case $("$compare" field "$1" ir_level) in *joint*) false ;; esac
}

check_model() {
	if ! is_forward "$1"; then
		! has "$1" case.json || check_gradients "$1"
		case ${1##*/} in mlp-joint | llama-joint) check_step_bits "$1" ;; esac
		return
	fi
	check_outputs "$1"
	case ${1##*/} in
	llama-tiny-fp32-training | tiny-llama) [ -n "$small" ] || check_bits "$1" ;;
	mlp-training) check_bits "$1" ;;
	esac
	case ${1##*/} in
	minilm) check_neighbours "$1" ;;
	tiny-llama) check_loss "$1" ;;
	tiny-llama-train) [ -n "$small" ] || check_training "$1" ;;
	esac
}

if [ $# -eq 0 ]; then
	if [ -z "$small" ] && [ -d "$shared" ]; then
		set -- "$shared"/*/
	else
		[ -n "$small" ] || echo "skipped: models that are not in tests/data/models: no folder $shared (set FP8SHARD_SHARED)"
		set -- tests/data/models/*/
	fi
fi
for dir; do
	check_model "${dir%/}"
done
check_recompute examples/tiny-llama
for dir in tests/data/fp8/*/; do
	check_lifted "${dir%/}"
done
for dir in tests/data/dims/*/; do
	check_dims "${dir%/}"
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
