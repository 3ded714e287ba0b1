//go:build !unix

package plugin

import (
	"os"
	"os/exec"
)

func ownGroup(*exec.Cmd) {}

func killGroup(p *os.Process) { p.Kill() }

func fate(s *os.ProcessState) string { return s.String() }
