#!/bin/sh
# Runs suites of tests on what is built in a folder; `make check` names all of them.
#
#   tests/check.sh BUILD SUITE...    unit text cli run random models suite docs style fuzz
#
# A suite prints its failures and ends with "N passed, N failed"; so does this, with the sums.
# FUZZ=N: inputs for each reader (20000).  RANDOM_PROGRAMS=N (300).  FP8SHARD_SHARED: the folder of real models (../shared).
cd "$(dirname "$0")/.." || exit 2
[ $# -ge 2 ] || { sed -n '2,4p' "$0" >&2; exit 2; }
BUILD=$1
FP8SHARD=$BUILD/fp8shard
export BUILD FP8SHARD
shift
log=$(mktemp) || exit 2
trap 'rm -f "$log"' EXIT
trap 'exit 2' HUP INT TERM

# Every check_*: Check ends with "99%: Checks: 120, Failures: 1, Errors: 0".
suite_unit() {
	for program in "$BUILD"/unit/check_*; do
		case $program in *.*) continue ;; esac
		"$program" 2>&1 || echo "FAILED ${program##*/}"
	done | tee "$log.unit" | grep -Ev '^Running suite|^100%: Checks: [0-9]+, Failures: 0, Errors: 0$'
	awk '/^[0-9]+%: Checks: / { gsub(/[:,]/, ""); checks += $3; bad += $5 + $7; ended++ }
		/^FAILED check_/ { failed++ }
		END { if (failed > 0 && bad == 0) bad = failed
			printf "%d passed, %d failed\n", (checks > bad ? checks - bad : 0), bad }' "$log.unit"
	rm -f "$log.unit"
}

suite_text() { tests/runtests.sh; }
suite_cli() { tests/cli/run.sh; }
# shellcheck disable=SC2086
suite_random() { "$BUILD"/run/check_random $RANDOM_PROGRAMS; }
suite_models() { tests/models/run.sh; }
suite_suite() { tests/suite/run.sh; }
suite_docs() { tests/docs/run.sh; }
suite_style() { tests/style.sh; }

suite_run() {
	if [ -x tests/run/run.sh ]; then tests/run/run.sh; else echo "0 passed, 0 failed"; fi
}

# One line a reader.
suite_fuzz() {
	"$BUILD"/fuzz/fuzz_readers "${FUZZ:-20000}" >"$log.fuzz" 2>&1
	status=$?
	[ $status -eq 0 ] || cat "$log.fuzz"
	echo "$(grep -c '^fuzz: ' "$log.fuzz") passed, $((status != 0)) failed"
	rm -f "$log.fuzz"
}

# Shows what a suite says as it says it; its last line goes to the log.
last_line() {
	awk -v log_file="$log" '/^[0-9]+ passed, [0-9]+ failed$/ { last = $0; next } { print; fflush() }
		END { print last > log_file }'
}

passed=0
failed=0
for suite; do
	start=$(date +%s)
	: >"$log"
	"suite_$suite" 2>&1 | last_line
	read -r p _ f _ <"$log"
	if [ -z "$f" ]; then
		echo "FAILED $suite: it did not come to its end"
		p=0 f=1
	fi
	printf '%-7s %6d passed, %d failed  (%d s)\n' "$suite" "$p" "$f" $(($(date +%s) - start))
	passed=$((passed + p))
	failed=$((failed + f))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
