module github.com/kjit-project/kjit/peers

go 1.26.3

replace github.com/kjit-project/kjit => ../

require (
	github.com/kjit-project/kjit v0.0.0
	github.com/moby/profiles/seccomp v0.3.0
	github.com/opencontainers/runtime-spec v1.3.0
	golang.org/x/net v0.62.0
	gvisor.dev/gvisor v0.0.0-20260905035102-160fafc42237
)

require (
	github.com/elastic/go-seccomp-bpf v1.6.0 // indirect
	github.com/gopacket/gopacket v1.7.7 // indirect
	github.com/unicorn-engine/unicorn v0.0.0-20250911131444-c24c9ebe773c // indirect
	golang.org/x/arch v0.33.0 // indirect
	golang.org/x/exp v0.0.0-20250711185948-6ae5c78190dc // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/time v0.16.0 // indirect
)
