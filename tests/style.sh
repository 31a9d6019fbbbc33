#!/bin/sh
# What a person should not have to look for: long files and functions, blanks, includes against the layers.
# Where ctags is not installed, functions are not measured.
cd "$(dirname "$0")/.." || exit 2
LC_ALL=C.UTF-8
export LC_ALL
found=$(mktemp) || exit 2
trap 'rm -f "$found" "$found.passed" "$found.one"' EXIT
: >"$found.passed"

sources() {
	find src kernels tools tests examples include "$@" 2>/dev/null | sort
}

# Reads findings, one a line; none is a check passed.
expect_none() {
	sed "s/^/FAILED /" >"$found.one"
	if [ -s "$found.one" ]; then cat "$found.one" >>"$found"; else echo >>"$found.passed"; fi
}

c_files=$(sources -name '*.[ch]' -type f)
all_files=$(sources -type f \( -name '*.[ch]' -o -name '*.def' -o -name '*.sh' \))

# shellcheck disable=SC2086
wc -l $c_files | awk '$2 != "total" && $1 > 600 { print $2 ": " $1 " lines; 600 are enough" }' | expect_none

# shellcheck disable=SC2086
if command -v ctags >/dev/null && ctags --version | grep -q Universal; then
	ctags -x --c-kinds=f --_xformat='%F %N %n %e' $c_files |
		awk '$4 - $3 >= 70 { print $1 ":" $3 ": " $2 ": " $4 - $3 + 1 " lines; 70 are enough" }' | expect_none
fi

# shellcheck disable=SC2086
grep -nHE '[[:blank:]]$' $all_files | sed 's/:[^:]*$/: blanks at the end of a line/' | expect_none
# shellcheck disable=SC2086
grep -nHE '^ +[^ *]' $c_files | grep -vE ':[0-9]+: {1,3}[^ ]' | sed -E 's/^([^:]*:[0-9]+):.*/\1: indented with blanks, not tabs/' | expect_none
# shellcheck disable=SC2086
grep -nHE '(^|[^:"])//([^"]*$)' $c_files | sed -E 's/^([^:]*:[0-9]+):.*/\1: a comment is written like this: \/* ... *\//' | expect_none
# shellcheck disable=SC2086
grep -nHwE 'TODO|FIXME|XXX' $c_files | expect_none

# layer FOLDER OTHER...: no file of FOLDER includes a header of the others.  What one element becomes
# (kernels/scalar.h) is all of kernels that folding may use.
layer() {
	folder=$1
	shift
	for other; do
		for header in "$other"/*.h; do
			case $header in */\*.h | kernels/scalar.h) continue ;; esac
			grep -nH "^#include \"\([a-z./]*/\)\?${header##*/}\"" "$folder"/*.[ch] |
				sed -E "s|^([^:]*:[0-9]+):.*|\1: $folder may not include ${header}|"
		done
	done | expect_none
}

layer src/ir src/import src/passes src/runtime kernels tools/lib
layer src/import src/passes src/runtime kernels tools/lib
layer src/passes src/runtime kernels tools/lib
layer src/runtime src/passes tools/lib
layer kernels src/import src/passes src/runtime tools/lib
layer kernels/cpu src/import src/passes src/runtime tools/lib
grep -nHE '#include "(ir|plan|infer|rule|text|verify)\.h"' kernels/*.h kernels/*/*.[ch] |
	sed -E 's|^([^:]*:[0-9]+):.*|\1: kernels know nothing of graphs and plans|' | expect_none

cat "$found"
bad=$(wc -l <"$found")
echo "$(wc -l <"$found.passed") passed, $bad failed"
[ "$bad" -eq 0 ]
