// Package uc is the part of Unicorn that its Go binding lacks: control of the
// translation cache, coprocessor registers, callbacks in C. It also tells the
// linker where ci/setup.sh leaves the library.
package uc

// The version in the path is the one in go.mod; TestLinkVersion compares them.

// #cgo LDFLAGS: -L${SRCDIR}/../../../.unicorn/v0.0.0-20250911131444-c24c9ebe773c -lunicorn -lm
// #cgo linux LDFLAGS: -lpthread
import "C"
