//go:build !unix

package plugin

import (
	"os"
	"os/exec"
)

// OwnGroup does nothing on this system.
func OwnGroup(*exec.Cmd) {}

// KillGroup ends a process.
func KillGroup(p *os.Process) { p.Kill() }

func fate(s *os.ProcessState) string { return s.String() }
