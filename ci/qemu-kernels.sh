#!/usr/bin/env bash
# Fetches kernels of Debian for `kjit replay --runner qemu:KERNEL` into .qemu/ of
# this checkout, one for each architecture that kjit knows and Debian has a JIT
# for. Packages are unpacked, not installed, and apt's own state stays as it is.
# Needs Debian's apt with its sources and keys, but no root. About 100 MB are
# downloaded, 25 MB stay.
#
#   ci/qemu-kernels.sh           fetch what is not there
#   ci/qemu-kernels.sh armmp     only that
set -euo pipefail
cd "$(dirname "$0")/.."

# Folder in .qemu, Debian's architecture, the package (the newest of those that
# match), and what QEMU needs of it beside the kernel.
kernels='
cloud-amd64 amd64 ^linux-image-[0-9.-]+-cloud-amd64-unsigned$
armmp       armhf ^linux-image-[0-9.-]+-armmp$
rpi         armel ^linux-image-[0-9.-]+-rpi$ bcm2835-rpi-zero.dtb
'

say() { echo "qemu-kernels: $*" >&2; }
die() { say "$*"; exit 3; }

# apt_for ARCH COMMAND...: apt as on a machine of that architecture.
apt_for() {
	local state=$PWD/.qemu/apt/$1 config=$PWD/.qemu/apt/$1/apt.conf
	mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
	touch "$state/status"
	cat >"$config" <<-END
		APT::Architecture "$1";
		APT::Architectures { "$1"; };
		APT::Sandbox::User "root";
		Dir::State "$state";
		Dir::State::Lists "$state/lists";
		Dir::State::status "$state/status";
		Dir::Cache "$state/cache";
	END
	shift
	APT_CONFIG=$config "$@"
}

# fetch FOLDER ARCH PATTERN [FILE]
fetch() {
	local dir=$PWD/.qemu/$1 arch=$2 pattern=$3 package work
	compgen -G "$dir/vmlinuz-*" >/dev/null && return
	command -v dpkg-deb >/dev/null && command -v apt-get >/dev/null || die "this is no Debian: put a kernel into $dir yourself"
	say "looking for the newest package like $pattern"
	# A source that has nothing for this architecture is an error to apt.
	apt_for "$arch" apt-get update >/dev/null 2>&1 || true
	package=$(apt_for "$arch" apt-cache search --names-only "$pattern" | cut -d' ' -f1 | sort -V | tail -n 1)
	[ -n "$package" ] || die "apt finds none for $arch: this is no Debian, or there is no network"
	say "downloading $package"
	work=$(mktemp -d "$PWD/.qemu/work.XXXXXX")
	apt_for "$arch" env -C "$work" apt-get -qq download "$package" || die "the download failed"
	dpkg-deb -x "$work"/*.deb "$work"
	mkdir "$work/ready"
	cp "$work"/boot/vmlinuz-* "$work/ready/"
	[ -z "${4-}" ] || find "$work/usr/lib" -name "$4" -exec cp {} "$work/ready/" \;
	rm -rf "$dir"
	mv "$work/ready" "$dir"
	rm -rf "$work"
	say "$(echo "$dir"/vmlinuz-*)"
}

mkdir -p .qemu
known=
while read -r folder arch pattern file; do
	[ -n "$folder" ] || continue
	known="$known $folder"
	[ $# -eq 0 ] || [ "$1" = "$folder" ] || continue
	fetch "$folder" "$arch" "$pattern" "$file"
done <<<"$kernels"
[ $# -eq 0 ] || [[ " $known " = *" $1 "* ]] || die "no kernel $1: there are$known"
