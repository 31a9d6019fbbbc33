#!/bin/sh
# `make suite`: what plans send, against the best known (table.txt).
#
#   BUILD=dir   the build folder
cd "$(dirname "$0")/../.." || exit 2
build=${BUILD:-build}
[ -x "$build/suite/suite" ] || { echo "tests/suite/run.sh: there is no program $build/suite/suite; run make suite" >&2; exit 2; }
"$build/suite/suite" tests/suite/table.txt
