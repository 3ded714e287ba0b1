package qemu

import (
	"os/exec"
	"syscall"
)

// tie makes a command end with the thread that starts it, so also when kjit is
// killed, and keeps the interrupt key from it.
func tie(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
