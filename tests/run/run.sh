#!/bin/sh
# Runs plans: sharded against unsharded, and what a user can get wrong.  Every tests/run/test_*.sh is read
# into this shell, with these words:
#
#   compile NAME FILE ARGUMENT...   FILE to $work/NAME.json
#   run STATUS ARGUMENT...          runs fp8shard-run; its exit status must be STATUS
#   err TEXT                        all of standard error is "fp8shard-run: TEXT"
#   err_has, out_has TEXT           a part of standard error or standard output
#   no_file NAME                    nothing has that name
#   same FILE FILE                  equal bytes
#
# $work is a fresh folder with weights.safetensors and ids.safetensors for block.ir.  BUILD: the build folder.
cd "$(dirname "$0")/../.." || exit 2
build=${BUILD:-build}
for tool in fp8shard fp8shard-run; do
	[ -x "$build/$tool" ] || { echo "tests/run/run.sh: there is no program $build/$tool; run make" >&2; exit 2; }
done
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 2' HUP INT TERM
passed=0
failed=0
line=
compiled=

fail() {
	echo "FAILED $test: $line: $1"
	failed=$((failed + 1))
}

pass() {
	passed=$((passed + 1))
}

compile() {
	name=$1
	shift
	compiled="fp8shard compile $*"
	line=$compiled
	if "$build/fp8shard" compile "$@" -o "$work/$name.json" >"$work/.out" 2>"$work/.err"; then
		pass
	else
		fail "$(head -n 3 "$work/.err")"
	fi
}

run() {
	want=$1
	shift
	line="$compiled; fp8shard-run $*"
	"$build/fp8shard-run" "$@" >"$work/.out" 2>"$work/.err"
	status=$?
	if [ $status -eq "$want" ]; then
		pass
	else
		fail "exit status $status, not $want: $(head -n 3 "$work/.err")$(grep '!' "$work/.out" | head -n 3)"
	fi
}

err() {
	printf 'fp8shard-run: %s\n' "$1" >"$work/.want"
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

test=weights
compile weights tests/run/weights.ir
run 0 "$work/weights.json" -o "$work/weights.safetensors"
compile ids tests/run/ids.ir
run 0 "$work/ids.json" -o "$work/ids.safetensors"
sed 's/f32\[/bf16[/' tests/run/block.ir >"$work/block16.ir"
sed -E 's/^  output ("[^"]*") = %(.*)/  %c\2 = cast %\2 {dtype=bf16} : \2\n  output \1 = %c\2/' tests/run/weights.ir >"$work/weights16.ir"
for shape in e:64,32 q:32,32 k:16,32 v:16,32 o:32,32 g:96,32 u:96,32 d:32,96; do
	sed -i "s/: ${shape%%:*}\$/: bf16[${shape#*:}]/" "$work/weights16.ir"
done
compile weights16 "$work/weights16.ir"
run 0 "$work/weights16.json" -o "$work/weights16.safetensors"

for file in tests/run/test_*.sh; do
	test=${file##*/}
	# shellcheck disable=SC1090
	. "$file"
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
