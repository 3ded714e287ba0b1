package main

import (
	"strings"

	"github.com/alecthomas/kong"
)

// examples are command lines for the help texts and manual pages of commands
// whose Help method has none, by the command's path.
var examples = map[string]string{
	"replay": `
kjit replay 'tcp port 80' trace.pcap                        # the x86-64 JITs, packet by packet
kjit replay filter.txt trace.pcap --jit all --rows diverging
kjit replay filter.txt trace.pcap --jit exec:./myjit        # a JIT of your own
kjit replay filter.txt trace.pcap --image dmesg.txt --profile linux-6.1-x86_64
kjit replay filter.txt trace.pcap --runner kernel           # the Linux that is running here
kjit replay finding.txtar                                   # a recorded divergence`,
	"jit": `
kjit jit --list
kjit jit filter.txt --jit linux-3.10-x86_64 --form list     # BPF with its machine code
kjit --json jit filter.txt >image.jsonl                     # a record for kjit verify`,
	"asm": `
kjit asm filter.asm
kjit asm filter.asm --to c | kjit disasm`,
	"disasm": `
tcpdump -ddd 'tcp port 80' | kjit disasm
kjit disasm filter.bin`,
	"convert": `
kjit convert --to asm listing.txt
kjit convert --from raw --to ddd filter.bin`,
	"check": `
kjit check filter.txt
kjit check --rules linux-3.0 --kind seccomp filter.txt`,
	"verify": `
kjit verify golden.jsonl
kjit capture filter.txt | kjit verify -`,
	"capture": `
kjit capture filter.txt trace.pcap -o image.jsonl
kjit capture --sockets --programs
kjit capture --pid 4711 -o filters.jsonl`,
	"doctor": `
kjit doctor
kjit --json doctor`,
	"fuzz": `
kjit fuzz --time 10m                                        # kjit's own JITs
kjit fuzz --runs 5000 --jit exec:./myjit --state myjit      # yours
kjit replay myjit/findings/NAME.txtar --jit exec:./myjit`,
	"corpus min":    "kjit corpus min --state kjit-fuzz",
	"corpus list":   "kjit corpus list --state kjit-fuzz",
	"corpus export": "kjit corpus export --state kjit-fuzz programs",
	"campaign start": `
kjit campaign start --runs 1000000
kjit campaign start --nats nats://server:4222 --time 8h     # hand out work to others`,
	"campaign work":     "kjit campaign work --nats nats://server:4222 --stay",
	"campaign status":   "kjit campaign status --once",
	"campaign findings": "kjit campaign findings --nats nats://server:4222",
	"campaign export":   "kjit campaign export findings",
	"campaign pause":    "kjit campaign pause",
	"campaign resume":   "kjit campaign resume",
	"campaign stop":     "kjit campaign stop",
	"mutants": `
kjit mutants --list
kjit mutants --only x86-and-imm16 --show
kjit mutants --clean 100000`,
	"bench paper": `
kjit bench paper
kjit bench paper --only zhu-2020 --svg pictures`,
	"bench seccomp": "kjit bench seccomp",
	"seccomp compile": `
kjit seccomp compile docker-default --layout tree
kjit seccomp compile profile.json --form raw --kernel 6.1 >filter.bin`,
	"seccomp cache": "kjit seccomp cache docker-default --rows lost",
	"seccomp verdicts": `
kjit seccomp verdicts docker-default --call 'clone*'
kjit seccomp verdicts --pid 4711 --action ERRNO`,
	"seccomp who": `
kjit seccomp who docker-default personality 0x20000
kjit seccomp who filter.asm openat --abi i386 -- -100`,
	"seccomp diff": `
kjit seccomp diff old.json new.json
kjit seccomp diff docker-default pid:4711`,
	"seccomp lint": `
kjit seccomp lint profile.json
kjit seccomp lint filter.asm --level warning`,
	"seccomp cost": `
kjit seccomp cost docker-default --rows none
kjit seccomp cost docker-default --histogram strace.txt --call 'open*'`,
	"version": `
kjit version
kjit --json version`,
}

// addExamples puts the examples behind the help texts of a command and of all
// below it.
func addExamples(node *kong.Node) {
	if text := examples[node.Path()]; text != "" {
		lines := strings.Split(strings.Trim(text, "\n"), "\n")
		node.Detail = strings.TrimPrefix(node.Detail+"\n\nExamples:\n\n  "+strings.Join(lines, "\n  "), "\n\n")
	}
	for _, child := range node.Children {
		addExamples(child)
	}
}
