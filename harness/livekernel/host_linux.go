package livekernel

import (
	"fmt"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

const goarch = runtime.GOARCH

// host is what this machine's kernel says of itself.
type host struct {
	release      string // "6.18.44-generic"
	machine      string // "x86_64", "armv7l"
	major, minor int
}

func thisHost() (*host, error) {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return nil, &UnavailableError{"the kernel's version", "uname: " + err.Error(), ""}
	}
	h := &host{release: unix.ByteSliceToString(uts.Release[:]), machine: unix.ByteSliceToString(uts.Machine[:])}
	if n, _ := fmt.Sscanf(h.release, "%d.%d", &h.major, &h.minor); n != 2 {
		return nil, &UnavailableError{"the kernel's version", fmt.Sprintf("release %q begins with no version", h.release), ""}
	}
	return h, nil
}

func (h *host) atLeast(major, minor int) bool {
	return h.major > major || h.major == major && h.minor >= minor
}

// profile is the kernel as the reference has to take it: its checker and its
// semantics. It has no layout: nothing is emulated.
func (h *host) profile() *kernelabi.Profile {
	p := *kernelabi.Current()
	p.Name = "linux-" + h.release
	p.Summary = "the running kernel"
	p.Rules = h.rules()
	p.Semantics = kernelabi.Semantics{
		NoDeviceKeepsA:            h.atLeast(4, 0),
		NlattrFailLoads0:          h.atLeast(4, 0),
		VlanPresentInTCI:          !h.atLeast(4, 20),
		NegativeOffsetsReachFrags: h.atLeast(6, 16),
	}
	return &p
}

func (h *host) rules() bpf.Rules {
	for _, r := range []struct {
		major, minor int
		rules        bpf.Rules
	}{
		{4, 5, bpf.RulesCurrent}, {3, 16, bpf.RulesLinux4_5}, {3, 12, bpf.RulesLinux3_12}, {3, 7, bpf.RulesLinux3_10},
	} {
		if h.atLeast(r.major, r.minor) {
			return r.rules
		}
	}
	return bpf.RulesLinux3_0
}

// cpuArchs are what records call the processors of images, by the machine name
// of uname.
var cpuArchs = []struct{ prefix, cpu, name string }{
	{"x86_64", "x86-64", "x86_64"},
	{"armv7", "armv7-a", "armv7"},
	{"armv6", "armv6", "armv6"},
	{"armv5", "armv5te", "armv5"},
}

// names returns how records name this kernel ("6.18-x86_64") and its processor.
// Kernels whose images kjit cannot run are an *UnavailableError.
func (h *host) names() (kernel, cpu string, err error) {
	for _, a := range cpuArchs {
		if strings.HasPrefix(h.machine, a.prefix) && (goarch == "amd64") == (a.cpu == "x86-64") {
			return fmt.Sprintf("%d.%d-%s", h.major, h.minor, a.name), a.cpu, nil
		}
	}
	return "", "", &UnavailableError{"capture", fmt.Sprintf("there is no emulated kernel for images of %s (kjit for %s)", h.machine, goarch), ""}
}
