#!/usr/bin/env bash
# The whole check, for any CI runner on a new machine: needs Go, and root or an
# installed cmake, make and C compiler. Takes about 10 minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { echo "== $*" >&2; "$@"; }

step make lint
step make test
step make peers
step make deploy
# The packages where data races could be: goroutines, cgo, shared caches. The
# rest is sequential code that the plain run has covered.
step go test -race -short ./bpf ./emulator/... ./harness ./harness/campaign ./harness/cluster ./harness/engine ./harness/plugin
step make demo
