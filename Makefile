# make demo and make test do all set-up themselves, on a new machine too.

.PHONY: build demo test lint race fuzz bench-c bench-engine mutants clean-pairs peers deploy browser test-qemu release setup clean

build: setup
	go build -o bin/ ./cmd/kjit

setup:
	@ci/setup.sh

# The main job on the program and packets that come with kjit: the filter that
# the first BPF JIT was announced with, on three instruction sets.
demo: build
	bin/kjit replay corpus:posting2011 corpus:packets --rows all \
		--jit linux-3.0-x86_64,inline-x86_64,linux-4.5-armv5,linux-4.5-armv7

# go test ./..., and at the end which tests were skipped and why.
test: setup
	go tool gotestsum --format pkgname -- ./...

lint: setup
	go vet ./...
	go tool staticcheck ./...
	@test -z "$$(gofmt -l .)" || { echo "gofmt -w these files:"; gofmt -l .; exit 1; }

race: setup
	go test -race ./...

# Every fuzz target for FUZZTIME each.
FUZZTIME ?= 2m
fuzz: setup
	ci/fuzz.sh $(FUZZTIME)

# A batch beside a C program with the same driver on the same library.
bench-c: setup
	go test ./emulator -run '^$$' -bench PlainC -benchtime 1x

# Fresh programs a second: generate, solve, interpret, compile, execute, compare.
bench-engine: setup
	go test ./harness/engine -run '^$$' -bench Engine -benchtime 15s -cpu 1

# Every JIT with a fault put in on purpose: found or not, by what, and how soon.
mutants: build
	bin/kjit mutants --show

# A million pairs of the JITs without a fault: there must be no false alarm.
PAIRS ?= 1000000
clean-pairs: build
	bin/kjit mutants --clean $(PAIRS)

# Other implementations of BPF against the interpreter: a module of its own.
peers: setup
	cd peers && go vet ./... && go test ./...

# The deployment files against the schemas of what reads them: a module of its own.
deploy:
	cd ci/deploy/check && go vet ./... && go test -count=1 ./...

# Reports in a headless Chromium, if there is one: a module of its own. With
# KJIT_SCREENSHOTS=DIR it keeps pictures of what it sees.
browser: setup
	cd harness/report/browser && go vet ./... && go test -count=1 ./...

# Programs on kernels of Debian, which it fetches and boots in QEMU: see docs/qemu.md.
test-qemu: setup
	ci/qemu-kernels.sh
	KJIT_QEMU=1 go test -count=1 -timeout 60m -v -run Kernels ./harness/qemu

# Archives for people, under dist/: see the head of the script.
release: build
	ci/release.sh

clean:
	rm -rf bin dist .unicorn "$${XDG_CACHE_HOME:-$$HOME/.cache}/kjit"
