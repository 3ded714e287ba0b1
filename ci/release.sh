#!/usr/bin/env bash
# Makes the archives of a release under dist/: for linux/amd64, and for linux/arm64
# where aarch64-linux-gnu-gcc is installed. An archive has a static kjit, manual
# pages, completions, and the licences of all that is in the binary; beside it lie
# its SBOM, the sources that the GPL asks for, and SHA256SUMS. The same commit, Go
# and C compiler give the same bytes.
#
#   ci/release.sh            everything
#   KJIT_SBOM=no ci/release.sh   without the SBOM, whose tool is fetched
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "release: $*" >&2; }
die() { say "$*"; exit 3; }

tar --version 2>/dev/null | grep -q GNU || die "GNU tar is missing: install it, and have it first on the PATH"
[ -x bin/kjit ] || die "bin/kjit is missing: run: make build"
[ -z "$(git status --porcelain)" ] || say "there are changes that are not committed: the archives are for trying only"

epoch=$(git log -1 --format=%ct)
version=$(git describe --tags --match 'v*' 2>/dev/null ||
	echo "v0.0.0-$(TZ=UTC git log -1 --format=%cd --date=format-local:%Y%m%d%H%M%S)-$(git rev-parse --short=12 HEAD)")
unicorn=$(awk '$1 == "github.com/unicorn-engine/unicorn" {print $2}' go.mod)
sbom=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
export LC_ALL=C TZ=UTC

rm -rf dist
mkdir -p dist
tools=$(mktemp -d "${TMPDIR:-/tmp}/kjit-release.XXXXXX")
trap 'rm -rf "$tools"' EXIT
cp bin/kjit "$tools/kjit" # until a kjit of the release runs here
[ "${KJIT_SBOM-}" = no ] || GOBIN=$tools go install "$sbom"

# pack DIR ARCHIVE: a folder of dist/ as an archive that depends on its contents only.
pack() {
	tar -C dist --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --mode=u+rw,go+r,go-w \
		--format=gnu -cf - "$1" | gzip -n9 >"dist/$2"
}

# licences BINARY DIR: the texts of all modules in a binary, of Go, and of the C library.
licences() {
	local path sum source found file
	while read -r path sum; do
		source=$(go list -m -f '{{.Dir}}' "$path@$sum")
		found=
		for file in "$source"/{LICEN[CS]E,COPYING,NOTICE,PATENTS,AUTHORS.TXT,License,license}*; do
			[ -f "$file" ] || continue
			mkdir -p "$2/$path"
			cp "$file" "$2/$path/"
			found=yes
		done
		[ "$found" ] || die "$path $sum has no licence text"
	done < <(go version -m "$1" | awk '$1 == "dep" {print $2, $3}')
	[ -f "$2/github.com/unicorn-engine/unicorn/COPYING" ] || die "the GPL of Unicorn is missing"
	mkdir -p "$2/go"
	cp "$(go env GOROOT)/LICENSE" "$2/go/" || die "Go's own licence is not in $(go env GOROOT)"
	[ ! -f /usr/share/doc/libc6/copyright ] || { mkdir -p "$2/libc" && cp /usr/share/doc/libc6/copyright "$2/libc/"; }
	chmod -R u+w "$2"
}

# add_licences SBOM: adds the licences that the tool does not find, of kjit and of Go's
# library, and mends those for which it takes another text: that of golang.org/x, and
# the GPL of Unicorn, of which some files have version 2 only.
add_licences() {
	local missing
	sed -i -E \
		-e 's|^( *)"name": "github.com/kjit-project/kjit",$|&\n\1"licenses": [{"license": {"id": "MIT"}}],|' \
		-e 's|^( *)"name": "std",$|&\n\1"licenses": [{"license": {"id": "BSD-3-Clause"}}],|' \
		-e '\|"name": "golang.org/x/|,/"id":/s/BSD-Source-Code/BSD-3-Clause/' \
		-e '\|"name": "github.com/unicorn-engine/unicorn"|,/"id":/s/GPL-2.0-or-later/GPL-2.0-only/' "$1"
	missing=$(awk '/"type": "(application|library)"/ {if (name) print name; name = "?"}
		name == "?" && /"name"/ {name = $2} /"licenses":/ {name = ""} END {if (name) print name}' "$1")
	[ -z "$missing" ] || die "the SBOM has no licence for $missing"
}

# archive GOARCH CC PROCESSOR: one archive, with the C compiler for it.
archive() {
	local name=kjit-$version-linux-$1 library
	local dir=dist/$name
	library=$(unicorn_for "$3" "$2")
	mkdir -p "$dir"/{man/man1,completions,licences}
	say "building $name"
	# netgo, osusergo: a static glibc cannot load the modules that these ask.
	GOOS=linux GOARCH=$1 CC=$2 CGO_ENABLED=1 CGO_LDFLAGS=-L$library go build -trimpath -buildvcs=true -tags netgo,osusergo \
		-ldflags '-s -w -buildid= -linkmode external -extldflags "-static -Wl,--build-id=none"' -o "$dir/kjit" ./cmd/kjit
	if readelf -d "$dir/kjit" | grep -q NEEDED; then die "$dir/kjit is not static"; fi
	if [ "$1" = "$(go env GOHOSTARCH)" ]; then
		"$dir/kjit" doctor >/dev/null || die "$dir/kjit does not work: run $dir/kjit doctor"
		cp "$dir/kjit" "$tools/kjit"
	elif command -v qemu-aarch64 >/dev/null; then
		qemu-aarch64 "$dir/kjit" doctor >/dev/null || die "$dir/kjit does not work in qemu-aarch64"
	else
		say "$name was not tried: there is no qemu-aarch64"
	fi
	"$tools/kjit" man --dir "$dir/man/man1"
	"$tools/kjit" completion bash >"$dir/completions/kjit.bash"
	"$tools/kjit" completion zsh >"$dir/completions/_kjit"
	"$tools/kjit" completion fish >"$dir/completions/kjit.fish"
	cp LICENSE README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md "$dir/"
	cp -r docs "$dir/docs"
	licences "$dir/kjit" "$dir/licences"
	cat >"$dir/SOURCE" <<-END
		This kjit was built from commit $(git rev-parse HEAD) by ci/release.sh.
		It links Unicorn $unicorn, which is under the GPL version 2
		(licences/github.com/unicorn-engine/unicorn/COPYING), and so the binary as a whole
		is. The source of both is beside this archive:
		kjit-$version-source.tar.gz
		unicorn-$unicorn.zip
		C compiler: $("$2" --version | head -n1), for $("$2" -dumpmachine), with its C library.
	END
	if grep -aqF "$(go env GOMODCACHE)" "$dir/kjit"; then die "$dir/kjit has folders of this machine in it"; fi
	pack "$name" "$name.tar.gz"
	if [ "${KJIT_SBOM-}" != no ]; then
		# Without the network, so that it depends on this machine's modules only.
		GOPROXY=off "$tools/cyclonedx-gomod" bin -json -noserial -notimestamp -licenses -std -version "$version" -output "dist/$name.cdx.json" "$dir/kjit" \
			2>"$tools/log" || { cat "$tools/log" >&2; die "the SBOM cannot be made"; }
		add_licences "dist/$name.cdx.json"
	fi
	rm -r "$dir"
}

# unicorn_for PROCESSOR CC: prints the folder of a libunicorn for a release. Unlike
# that of ci/setup.sh it has no names of folders of this machine in it.
unicorn_for() {
	local dir=$PWD/.unicorn/$unicorn-$1 source build cross=()
	if [ ! -s "$dir/libunicorn.a" ]; then
		say "building libunicorn for $1 (about 5 minutes of CPU time)"
		source=$(go list -m -f '{{.Dir}}' github.com/unicorn-engine/unicorn)
		build=$tools/unicorn-$1 # so that it goes, however this ends
		mkdir -p "$build"
		[ "$1" = "$(uname -m)" ] || cross=(-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR="$1")
		{ cmake -S "$source" -B "$build/out" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF "${cross[@]}" \
			-DCMAKE_C_COMPILER="$2" -DCMAKE_C_FLAGS="-ffile-prefix-map=$source=unicorn -ffile-prefix-map=$build/out=build" \
			-DCMAKE_POSITION_INDEPENDENT_CODE=ON -DUNICORN_ARCH="x86;arm" -DUNICORN_LEGACY_STATIC_ARCHIVE=ON \
			-DUNICORN_BUILD_TESTS=OFF -DUNICORN_INSTALL=OFF &&
			cmake --build "$build/out" --target unicorn_archive --parallel "$(nproc)"; } >"$build/log" 2>&1 ||
			{ tail -n 20 "$build/log" >&2; die "building libunicorn for $1 failed"; }
		mkdir -p "$dir"
		cp "$build/out/libunicorn.a" "$dir/unfinished"
		mv "$dir/unfinished" "$dir/libunicorn.a"
		rm -rf "$build"
	fi
	echo "$dir"
}

if [ "$(go env GOHOSTARCH)" = amd64 ]; then
	archive amd64 "${CC:-gcc}" x86_64
else
	say "linux/amd64 is skipped: this is no x86_64 machine"
fi
if command -v aarch64-linux-gnu-gcc >/dev/null; then
	archive arm64 aarch64-linux-gnu-gcc aarch64
else
	say "linux/arm64 is skipped: there is no aarch64-linux-gnu-gcc (apt-get install gcc-aarch64-linux-gnu)"
fi

git archive --format=tar --prefix="kjit-$version/" HEAD | gzip -n9 >"dist/kjit-$version-source.tar.gz"
cp "$(go env GOMODCACHE)/cache/download/github.com/unicorn-engine/unicorn/@v/$unicorn.zip" dist/"unicorn-$unicorn.zip"
chmod u+w dist/unicorn-*
(cd dist && sha256sum -- * >SHA256SUMS)
say "$(cd dist && ls | tr '\n' ' ')"
