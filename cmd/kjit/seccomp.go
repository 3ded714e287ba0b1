package main

// seccompCmd is everything about seccomp filters; each command is in a file of
// its own, seccomp_NAME.go.
type seccompCmd struct {
	Compile  seccompCompileCmd  `cmd:"" help:"Compile a profile (OCI, Docker) to a filter, in a layout of your choice."`
	Cache    seccompCacheCmd    `cmd:"" help:"List which calls a kernel lets pass without running filters, and what keeps it from others."`
	Verdicts seccompVerdictsCmd `cmd:"" help:"List what filters say to every call: the action, where it is decided, instructions executed."`
	Who      seccompWhoCmd      `cmd:"" help:"Tell what becomes of one call, and which instruction or rule decides that."`
	Diff     seccompDiffCmd     `cmd:"" help:"Find the calls that two filters treat differently, or prove that there are none."`
	Lint     seccompLintCmd     `cmd:"" help:"Look for what the author of a filter most probably did not want."`
	Cost     seccompCostCmd     `cmd:"" help:"Count what filters execute for every call, in BPF and on each machine, with and without the result cache."`
}
