#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other, TIME each.
#   ci/fuzz.sh 2m
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-2m}
failed=0
for dir in $(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do
	for target in $(grep -h '^func Fuzz' "$dir"/*_test.go | sed 's/func \(Fuzz[A-Za-z0-9_]*\).*/\1/'); do
		echo "== $dir $target"
		go test "$dir" -run '^$' -fuzz "^$target\$" -fuzztime "$time" || failed=1
	done
done
exit $failed
