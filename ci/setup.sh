#!/usr/bin/env bash
# Builds libunicorn once, from the source that the pinned Go binding comes with,
# into .unicorn/VERSION/libunicorn.a of this checkout. After that plain
# `go build ./...` and `go test ./...` link it: emulator/internal/uc names the
# folder in its #cgo line.
#
#   ci/setup.sh           make sure the library is there (does nothing if so)
#   ci/setup.sh --print   print the folder it is, or would be, in
#
# With GCC it is built twice: the second time with what the compiler counted while
# the first one translated some thousand programs, which makes fresh programs
# about an eighth faster (KJIT_PLAIN_UNICORN=1: build it once).
#
# A finished library is also kept in ${XDG_CACHE_HOME:-~/.cache}/kjit, so that
# the next checkout on this machine need not build it (KJIT_NO_CACHE=1: do not).
set -euo pipefail
cd "$(dirname "$0")/.."

module=github.com/unicorn-engine/unicorn
version=$(awk -v m="$module" '$1 == m {print $2}' go.mod)
dir=$PWD/.unicorn/$version
lib=$dir/libunicorn.a
[ "${1-}" = --print ] && { echo "$dir"; exit 0; }
[ -s "$lib" ] && exit 0

say() { echo "setup: $*" >&2; }
die() { say "$*"; exit 3; }

# need COMMAND LINUX-PACKAGE BREW-PACKAGE: installs what is missing where that
# needs no password, and says the exact command where it does.
need() {
	command -v "$1" >/dev/null 2>&1 && return
	if [ "$(uname -s)" = Darwin ]; then
		command -v brew >/dev/null 2>&1 || die "$1 is missing: install Homebrew, then run: brew install $3"
		say "installing $3 with brew"
		brew install "$3" >&2
	elif command -v apt-get >/dev/null 2>&1; then
		[ "$(id -u)" = 0 ] || die "$1 is missing: run: sudo apt-get update && sudo apt-get install -y $2"
		say "installing $2 with apt-get"
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$2"; } >&2
	else
		die "$1 is missing: install it with this system's package manager"
	fi
}

command -v go >/dev/null 2>&1 || die "go is missing: install Go 1.26 or later from https://go.dev/dl"
if [ "$(uname -s)" = Darwin ]; then
	xcrun --find cc >/dev/null 2>&1 || die "a C compiler is missing: run: xcode-select --install"
	jobs=$(sysctl -n hw.ncpu)
	pic=
else
	command -v cc >/dev/null 2>&1 || need gcc build-essential gcc
	jobs=$(nproc)
	pic=-DCMAKE_POSITION_INDEPENDENT_CODE=ON
fi

# The key of the per-user cache: the source, the machine, and this recipe.
recipe=$(cksum <ci/setup.sh | cut -d' ' -f1)${KJIT_PLAIN_UNICORN:+-plain}
cached=${XDG_CACHE_HOME:-$HOME/.cache}/kjit/unicorn-$version-$(uname -s)-$(uname -m)-$recipe.a

# install FILE TARGET: a reader sees the whole file or none.
install_whole() {
	mkdir -p "$(dirname "$2")"
	cp "$1" "$2.$$" && mv "$2.$$" "$2"
}

if [ -z "${KJIT_NO_CACHE-}" ] && [ -s "$cached" ]; then
	install_whole "$cached" "$lib"
	say "libunicorn $version copied from $cached"
	exit 0
fi

need cmake cmake cmake
need make make make
go mod download "$module"
source=$(go list -m -f '{{.Dir}}' "$module")
build=$(mktemp -d "${TMPDIR:-/tmp}/kjit-unicorn.XXXXXX")
trap 'rm -rf "$build"' EXIT
log=$build/log

# library CFLAGS: builds it in $build/out, where GCC also keeps its counts.
# UNICORN_LEGACY_STATIC_ARCHIVE puts all objects into one libunicorn.a.
library() {
	cmake -S "$source" -B "$build/out" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF $pic \
		-DUNICORN_ARCH="x86;arm" -DUNICORN_LEGACY_STATIC_ARCHIVE=ON \
		-DUNICORN_BUILD_TESTS=OFF -DUNICORN_INSTALL=OFF -DCMAKE_C_FLAGS="$1" &&
		cmake --build "$build/out" --target unicorn_archive --parallel "$jobs"
} >>"$log" 2>&1

# train: runs the engine's benchmark on a library that counts.
train() {
	library "-fprofile-generate -fprofile-update=single" &&
		CGO_LDFLAGS="-L$build/out" go test -tags ucprofile ./harness/engine \
			-run '^$' -bench Engine/total -benchtime 5x -cpu 1 >>"$log" 2>&1 &&
		[ -n "$(find "$build/out" -name '*.gcda' -print -quit)" ]
}

flags=
say "building libunicorn $version (x86 and ARM, 3 to 6 minutes of CPU time) ..."
if [ -z "${KJIT_PLAIN_UNICORN-}" ] && ! cc -dM -E - </dev/null | grep -q __clang__; then
	if train; then
		flags="-fprofile-use -fprofile-partial-training -Wno-missing-profile"
	else
		say "the library that counts does not build or run here: it is built without its help"
		rm -rf "$build/out"
	fi
fi
if ! library "$flags"; then
	tail -n 30 "$log" >&2
	die "building libunicorn failed (above: the end of the log); after mending it run: ci/setup.sh"
fi
install_whole "$build/out/libunicorn.a" "$lib"
[ -n "${KJIT_NO_CACHE-}" ] || install_whole "$lib" "$cached" || true
say "libunicorn $version is in $dir"
