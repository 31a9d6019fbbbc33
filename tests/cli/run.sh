#!/bin/sh
# Tests of the command line: every tests/cli/test_*.sh, read into this shell, with these words:
#
#   run STATUS ARGUMENT...   runs fp8shard; its exit status must be STATUS
#   err TEXT                 all of standard error is "fp8shard: TEXT"
#   err_has, out_has TEXT    a part of standard error or standard output
#   no_file NAME             nothing has that name
#   same FILE FILE           equal bytes
#   same_program FILE FILE   equal plans, but for the command line that they keep
#
# $work is a fresh folder.  FP8SHARD=path of the program.
cd "$(dirname "$0")/../.." || exit 2
tool=${FP8SHARD:-build/fp8shard}
if [ ! -x "$tool" ]; then
	echo "tests/cli/run.sh: there is no program $tool; run make" >&2
	exit 2
fi
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 2' HUP INT TERM
passed=0
failed=0
line=

fail() {
	echo "FAILED $test: fp8shard $line: $1"
	failed=$((failed + 1))
}

pass() {
	passed=$((passed + 1))
}

run() {
	want=$1
	shift
	line="$*"
	"$tool" "$@" >"$work/.out" 2>"$work/.err"
	status=$?
	if [ $status -eq "$want" ]; then
		pass
	else
		fail "exit status $status, not $want: $(head -n 3 "$work/.err")"
	fi
}

err() {
	printf 'fp8shard: %s\n' "$1" >"$work/.want"
	if diff "$work/.want" "$work/.err"; then pass; else fail "standard error"; fi
}

err_has() {
	if grep -qF -e "$1" "$work/.err"; then pass; else fail "'$1' is not in standard error: $(head -n 3 "$work/.err")"; fi
}

out_has() {
	if grep -qF -e "$1" "$work/.out"; then pass; else fail "'$1' is not in standard output"; fi
}

no_file() {
	if [ -e "$1" ]; then fail "there is a file $1"; else pass; fi
}

same() {
	if cmp -s "$1" "$2"; then pass; else fail "$1 and $2 differ"; fi
}

# Plans that differ in how they were asked for alone: their commands and rules.
same_program() {
	for plan in "$1" "$2"; do
		sed -e '1d' -e '/^"command":/d' -e '/^"rules":/,/^\],$/d' "$plan" >"$plan.program"
	done
	same "$1.program" "$2.program"
}

# A Megatron MLP as a JSON graph.
cat >"$work/mlp.json" <<'END'
{"fp8shard": "graph", "version": 1,
 "inputs": {"x": {"dtype": "bf16", "shape": [64, 32]}},
 "parameters": {"fc1.weight": {"dtype": "bf16", "shape": [128, 32]}, "fc2.weight": {"dtype": "bf16", "shape": [32, 128]}},
 "nodes": [{"op": "linear", "in": ["x", "fc1.weight"], "out": "h", "module": "fc1"},
           {"op": "gelu", "in": ["h"], "out": "a"},
           {"op": "linear", "in": ["a", "fc2.weight"], "out": "y", "module": "fc2"}],
 "outputs": ["y"]}
END

for file in tests/cli/test_*.sh; do
	test=${file##*/}
	# shellcheck disable=SC1090
	. "$file"
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
