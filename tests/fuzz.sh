#!/bin/sh
# fuzz.sh SECONDS TARGET: runs one of libFuzzer's targets from its seeds on; 1 if it found
# something, which is then kept in build/fuzz.
set -u
cd "$(dirname "$0")/.." || exit 1

name=$(basename "$2")
log=build/fuzz/$name.log
mkdir -p "build/fuzz/corpus/$name"
if "$2" -max_total_time="$1" -print_final_stats=1 -timeout=10 -artifact_prefix="build/fuzz/$name-" \
	"build/fuzz/corpus/$name" "tests/fuzz/seeds/$name" >"$log" 2>&1 </dev/null; then
	runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
	echo "$name: $runs inputs, nothing found"
else
	tail -n 60 "$log"
	echo "$name: FAILED, see build/fuzz" >&2
	exit 1
fi
