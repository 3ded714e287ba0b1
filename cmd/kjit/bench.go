package main

// benchCmd is everything that counts or measures; each command is in a file of
// its own, bench_NAME.go.
type benchCmd struct {
	Paper   benchPaperCmd   `cmd:"" help:"Print the published tables of BPF JITs and seccomp beside counts from the emulator."`
	Seccomp benchSeccompCmd `cmd:"" help:"Run the kernel's benchmark of seccomp filters here, beside published figures and counts from the emulator."`
	Scaling benchScalingCmd `cmd:"" help:"Tell on paper what a campaign does on many machines, from costs measured here."`
	Peers   benchPeersCmd   `cmd:"" help:"Run the interpreter and the emulator beside other people's machines for BPF."`
}
