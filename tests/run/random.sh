#!/bin/sh
# Random programs (random.c): sharded on a random mesh they compute what one rank computes.
#
#   tests/run/random.sh [COUNT [FIRST]]     so many programs (300), from the seed FIRST (0) on
#
# A program that fails is shown with how to run it again.  BUILD: the build folder.
cd "$(dirname "$0")/../.." || exit 2
build=${BUILD:-build}
count=${1:-300} first=${2:-0}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 2' HUP INT TERM
passed=0
failed=0
skipped=0

# run HOW: compiles the program with the arguments in the file HOW, and runs it.
run() {
	set -- "$1" "$work/graph.ir" -o "$work/$1.json"
	how=$1
	shift
	while IFS= read -r argument; do set -- "$@" "$argument"; done <"$work/$how"
	"$build/fp8shard" compile "$@" >/dev/null 2>"$work/log" &&
		"$build/fp8shard-run" "$work/$how.json" --weights "$work/w.safetensors" --inputs "$work/i.safetensors" \
			-o "$work/$how.safetensors" >/dev/null 2>"$work/log"
}

# Everything that a failure needs.
show() {
	failed=$((failed + 1))
	echo "FAILED seed $seed: $(tail -n 1 "$work/log"); again: tests/run/random.sh 1 $seed"
	[ "$count" -gt 1 ] || cat "$work/graph.ir" "$work/sharded"
}

seed=$first
while [ "$seed" -lt $((first + count)) ]; do
	if "$build/run/random" "$seed" "$work" >"$work/made" 2>"$work/log" && run whole && run sharded &&
		"$build/run/random" "$seed" "$work/whole.safetensors" "$work/sharded.safetensors" >"$work/log" 2>&1
	then
		passed=$((passed + 1))
		cat "$work/log" >>"$work/outputs"
		"$build/fp8shard" show "$work/sharded.json" >"$work/plan"
		sort -u "$work/made" "$work/plan" | awk '/^uneven$|^  (all|reduce)_/ && !seen[$1]++ { print $1 }' >>"$work/moves"
		awk '$2 == "=" { print $3 }' "$work/graph.ir" >>"$work/ops"
	elif grep -q 'matches no parameter' "$work/log"; then
		skipped=$((skipped + 1)) # folding has left nothing of what was to be placed
	else
		show
	fi
	seed=$((seed + 1))
done
touch "$work/moves" "$work/outputs" "$work/ops"
with=
for kind in all_gather reduce_scatter all_reduce all_to_all uneven; do
	with="$with, $(grep -cx $kind "$work/moves") with $kind"
done
kinds=$(sort -u "$work/ops" | grep -c .)
awk -v with="$with" -v kinds="$kinds" '{ bits += $1; all += $3 }
	END { print "random programs: " bits " of " all " outputs bit for bit, " kinds " kinds of ops" with }' "$work/outputs"
[ "$skipped" -eq 0 ] || echo "skipped: $skipped programs, of which folding left less than was to be placed"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
