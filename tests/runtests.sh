#!/bin/sh
# Tests that are files: what `fp8shard opt` makes of each .ir under tests/ir and tests/passes.
#
#   tests/passes/PASS/case.ir   passes from its line "# passes: a,b"; further options from "# options: ..."
#                               case.out beside it: the graph printed; case.err: the message, exit status 1
#   tests/ir/case.ir            no pass: case.err, or printed; what is printed must print the same again
#
#   tests/runtests.sh [FILE.ir]...   FP8SHARD=path of the program; UPDATE=1 rewrites .out and .err
cd "$(dirname "$0")/.." || exit 2
tool=${FP8SHARD:-build/fp8shard}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 2' HUP INT TERM
passed=0
failed=0

fail() {
	echo "FAILED $1: $2"
	failed=$((failed + 1))
}

# The words after "# KEY:" on a comment line of the file.
header() {
	sed -n "s/^# $2: *//p" "$1" | head -n 1
}

# opt FILE PASSES OPTIONS: leaves work/out, work/err; gives the exit status.
opt() {
	# shellcheck disable=SC2086
	"$tool" opt --passes="$2" $3 "$1" >"$work/out" 2>"$work/err"
}

# What was printed must parse, and print the same.
again() {
	cp "$work/out" "$work/printed.ir" && opt "$work/printed.ir" "" "" && cmp -s "$work/out" "$work/printed.ir"
}

# update BASE KIND OTHER golden|plain: writes the golden where there is to be one.
update() {
	rm -f "$1.$3"
	if [ "$2$4" != outplain ] || [ -e "$1.out" ]; then
		cp "$work/$2" "$1.$2"
	fi
}

# check FILE PASSES OPTIONS golden|plain: plain needs no .out.
check() {
	base=${1%.ir}
	opt "$1" "$2" "$3"
	status=$?
	case $status in
	0) kind=out other=err ;;
	1) kind=err other=out ;;
	*) fail "$1" "exit status $status: $(head -n 1 "$work/err")"; return ;;
	esac
	if [ -n "$UPDATE" ]; then
		update "$base" $kind $other "$4"
	fi
	if [ -e "$base.$other" ]; then
		fail "$1" "exit status $status, but there is $base.$other: $(head -n 1 "$work/err")"
	elif [ $kind = err ] && [ -s "$work/out" ]; then
		fail "$1" "an error, and yet output"
	elif [ -e "$base.$kind" ] && ! diff -u "$base.$kind" "$work/$kind"; then
		fail "$1" "not as $base.$kind has it"
	elif [ ! -e "$base.$kind" ] && [ "$kind$4" != outplain ]; then
		fail "$1" "there is no $base.$kind: $(head -n 1 "$work/$kind")"
	elif [ $kind = out ] && ! again; then
		fail "$1" "what is printed does not print the same again"
	else
		passed=$((passed + 1))
	fi
}

[ $# -gt 0 ] || set -- tests/ir/*.ir tests/passes/*/*.ir
for file; do
	[ -e "$file" ] || continue
	passes=$(header "$file" passes)
	case $file in
	*tests/ir/*) check "$file" "$passes" "$(header "$file" options)" plain ;;
	*) check "$file" "$passes" "$(header "$file" options)" golden ;;
	esac
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
