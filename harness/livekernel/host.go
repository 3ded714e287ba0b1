package livekernel

import (
	"fmt"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness/livekernel/probe"
	"github.com/kjit-project/kjit/kernelabi"
)

// host is a kernel by what it says of itself.
type host struct {
	probe.System
	major, minor int
}

// newHost reads the version. The error is an *UnavailableError.
func newHost(system probe.System) (*host, error) {
	h := &host{System: system}
	if n, _ := fmt.Sscanf(h.Release, "%d.%d", &h.major, &h.minor); n != 2 {
		return nil, unavailable("the kernel's version", fmt.Sprintf("release %q begins with no version", h.Release), "")
	}
	return h, nil
}

func (h *host) atLeast(major, minor int) bool {
	return h.major > major || h.major == major && h.minor >= minor
}

// profile is the kernel as the reference has to take it: its checker and its
// semantics. They are those of the built-in profile of the same version and
// processor if there is one. It has no layout: nothing is emulated.
func (h *host) profile() *kernelabi.Profile {
	p := *kernelabi.Current()
	p.Name = "linux-" + h.Release
	p.Summary = "a running kernel"
	p.Rules = h.rules()
	p.Semantics = kernelabi.Semantics{
		NoDeviceKeepsA:            h.atLeast(4, 0),
		NlattrFailLoads0:          h.atLeast(4, 0),
		VlanPresentInTCI:          !h.atLeast(4, 20),
		NegativeOffsetsReachFrags: h.atLeast(6, 16),
	}
	if kernel, _, err := h.names(); err == nil {
		if known, err := kernelabi.ProfileByName("linux-" + kernel); err == nil {
			p.Arch, p.Rules, p.Semantics = known.Arch, known.Rules, known.Semantics
		}
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
		if strings.HasPrefix(h.Machine, a.prefix) && (h.GOARCH == "amd64") == (a.cpu == "x86-64") {
			return fmt.Sprintf("%d.%d-%s", h.major, h.minor, a.name), a.cpu, nil
		}
	}
	return "", "", unavailable("capture", fmt.Sprintf("there is no emulated kernel for images of %s (kjit for %s)", h.Machine, h.GOARCH), "")
}
