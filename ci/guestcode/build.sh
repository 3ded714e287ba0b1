#!/bin/sh
# Compiles every C file here for every architecture into the folder $1, as flat
# code whose entry point is its first byte, with the compilers' versions beside it.
#
#   ci/guestcode/build.sh harness/guestcode/code
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?the folder to write to}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$out"

common="-O2 -std=gnu99 -Wall -Werror -ffreestanding -fPIC -fvisibility=hidden -fno-stack-protector
	-fno-asynchronous-unwind-tables -fno-unwind-tables -ffunction-sections -fno-ident"

# build ARCH PREFIX FLAGS...
build() {
	arch=$1 prefix=$2
	shift 2
	for source in "$here"/*.c; do
		name=$(basename "$source" .c)-$arch
		"${prefix}gcc" $common "$@" -c "$source" -o "$tmp/$name.o"
		"${prefix}ld" -T "$here/flat.ld" "$tmp/$name.o" -o "$tmp/$name.elf"
		"${prefix}objcopy" -O binary "$tmp/$name.elf" "$tmp/$name.bin"
	done
	printf '%s %s\n' "$arch" "$("${prefix}gcc" --version | head -n 1)" >> "$tmp/compilers.txt"
}
build x86_64 "" -m64 -mno-red-zone -mgeneral-regs-only -fcf-protection=none
build armv5 arm-linux-gnueabi- -march=armv5te -mfloat-abi=soft -marm
build armv7 arm-linux-gnueabi- -march=armv7-a -mfloat-abi=soft -marm -mno-unaligned-access

# All or nothing: a failed compilation leaves the folder as it was.
chmod 644 "$tmp"/*.bin
mv "$tmp"/*.bin "$tmp/compilers.txt" "$out/"
