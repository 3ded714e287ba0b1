package main

// seccompCmd is everything about seccomp filters; each command is in a file of
// its own, seccomp_NAME.go.
type seccompCmd struct {
}
