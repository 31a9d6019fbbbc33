#!/bin/sh
# Runs the examples of README.md and docs/*.md and compares what they print.
#
# An example is a block of kind `console`: a line "$ COMMAND" (it may go on after a backslash) and the
# output below it, both streams; <<'END' takes the lines to END.  A line "..." stands for any lines.  The blocks of a file share a folder,
# where `examples` and `docs` are those of the project.  `make` in an example is not run here.
cd "$(dirname "$0")/../.." || exit 2
root=$PWD
PATH=$(cd "${BUILD:-build}" && pwd):$(cd "${BUILD:-build}" && pwd)/examples:$PATH
export PATH
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

# FILE: writes NN.cmd and NN.want to the folder, one pair a command.
split_file() {
	awk -v dir="$2" '
		/^ *```console$/ { inside = 1; match($0, /^ */); indent = RLENGTH; heredoc = 0; next }
		/^ *```/ { inside = 0; next }
		!inside { next }
		{ $0 = substr($0, indent + 1) }
		heredoc { print > cmd; heredoc = !/^END$/; next }
		more { print > cmd; more = /\\$/; next }
		/^\$ / { count++; cmd = sprintf("%s/%03d.cmd", dir, count); want = sprintf("%s/%03d.want", dir, count)
			printf "" > want; print substr($0, 3) > cmd; more = /\\$/; heredoc = /<<.END.$/; next }
		{ print > want }' "$1"
}

# GOT WANT: equal, where a line "..." of WANT stands for any lines.
matches() {
	awk 'NR == FNR { want[++n] = $0; next } { got[++m] = $0 }
		function fits(i, j) {
			if (i > n) return j > m
			if (want[i] == "...") { for (; j <= m + 1; j++) if (fits(i + 1, j)) return 1; return 0 }
			return j <= m && want[i] == got[j] && fits(i + 1, j + 1)
		}
		END { exit !fits(1, 1) }' "$2" "$1"
}

for file in README.md CONTRIBUTING.md docs/*.md; do
	here=$work/$(basename "$file" .md)
	mkdir -p "$here/parts" "$here/run"
	ln -s "$root/examples" "$root/docs" "$root/tests" "$root/src" "$root/kernels" "$here/run/"
	split_file "$file" "$here/parts"
	for cmd in "$here"/parts/*.cmd; do
		[ -f "$cmd" ] || continue
		grep -q '^make' "$cmd" && continue
		(cd "$here/run" && sh "$cmd") >"$here/got" 2>&1
		if matches "$here/got" "${cmd%.cmd}.want"; then
			passed=$((passed + 1))
		else
			failed=$((failed + 1))
			echo "FAILED $file: $(head -n 1 "$cmd")"
			diff "${cmd%.cmd}.want" "$here/got" | head -n 20
		fi
	done
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
