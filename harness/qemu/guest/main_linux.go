// Command guest is the first and only process of a guest that harness/qemu
// boots: it tries programs in the guest's kernel, as asked over the console.
package main

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/kjit-project/kjit/harness/livekernel/probe"
	"github.com/kjit-project/kjit/harness/qemu/wire"
)

// settings are sysctls, set where the kernel has them.
var settings = []struct{ file, value string }{
	{"kernel/printk", "1"},             // the console is for answers
	{"kernel/panic_on_oops", "1"},      // a kernel that goes on has nothing to say
	{"net/core/bpf_jit_enable", "1"},   // some have it off
	{"net/core/bpf_jit_harden", "0"},   // constants as they are
	{"net/core/optmem_max", "4000000"}, // 10240 is too little for long filters
	{"net/core/wmem_max", "4194304"},   // large packets
}

func main() {
	err := serve()
	if err != nil {
		wire.Fail(os.Stdout, err)
	}
	// The host hangs up; nobody is to be waited for.
	unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	select {}
}

func serve() error {
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	for _, s := range settings {
		_ = os.WriteFile("/proc/sys/"+s.file, []byte(s.value), 0)
	}
	if err := rawConsole(); err != nil {
		return err
	}
	kernel, err := probe.Running()
	if err != nil {
		return err
	}
	defer kernel.Close()
	return wire.Serve(os.Stdin, os.Stdout, kernel)
}

// rawConsole makes the console pass bytes as they are.
func rawConsole() error {
	mode, err := unix.IoctlGetTermios(0, unix.TCGETS)
	if err != nil {
		return err
	}
	mode.Iflag, mode.Oflag, mode.Lflag = 0, 0, 0
	mode.Cc[unix.VMIN], mode.Cc[unix.VTIME] = 1, 0
	return unix.IoctlSetTermios(0, unix.TCSETS, mode)
}
