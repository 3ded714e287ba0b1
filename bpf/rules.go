package bpf

// Rules are the points in which the checkers of Linux releases differ.
type Rules struct {
	Name string
}
