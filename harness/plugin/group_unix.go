//go:build unix

package plugin

import (
	"os"
	"os/exec"
	"syscall"
)

// OwnGroup makes a command the leader of a process group, so that it can be
// ended with all that it starts, and so that an interrupt key at the terminal
// is kjit's alone.
func OwnGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// KillGroup ends the group of a process that was not waited for yet: until then
// nobody else can have its number.
func KillGroup(p *os.Process) { syscall.Kill(-p.Pid, syscall.SIGKILL) }

// fate says how a process came to its end; "" if only because it was killed,
// which says nothing.
func fate(s *os.ProcessState) string {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() && w.Signal() == syscall.SIGKILL {
		return ""
	}
	return s.String()
}
