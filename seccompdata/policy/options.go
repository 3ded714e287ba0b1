package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kjit-project/kjit/seccompdata"
)

// Options fix what a profile leaves to the machine and the container.
type Options struct {
	// Native is the ABI of the machine: conditions on arches are about it, and
	// it chooses the line of archMap. nil is the first of ABIs, or x86_64.
	Native *seccompdata.ABI

	// ABIs replaces the profile's own list.
	ABIs []*seccompdata.ABI

	// Capabilities of the container, for conditions on caps, as "CAP_KILL". nil
	// are those of config.json if the profile is one, else Docker's; an empty
	// list is none.
	Capabilities []string

	Kernel  seccompdata.Kernel // for conditions on minKernel; zero is newer than any
	SameArg SameArg            // what several conditions on one argument mean
}

// SameArg is a reading of rules that have several conditions on one argument.
type SameArg uint8

const (
	// SameArgOr takes each condition of such a rule for a rule of its own, also
	// those on other arguments. libseccomp takes but one comparison an argument,
	// so runc and crun fall back to this (opencontainers/runc#1616).
	SameArgOr SameArg = iota
	// SameArgAnd is the OCI runtime specification: all conditions have to hold.
	SameArgAnd
)

func (o *Options) native() *seccompdata.ABI {
	switch {
	case o.Native != nil:
		return o.Native
	case len(o.ABIs) > 0:
		return o.ABIs[0]
	}
	return seccompdata.X86_64
}

// has reports whether the container has the capability.
func (o *Options) has(capability string) bool {
	if o.Capabilities == nil {
		return slices.Contains(DockerCapabilities, capability)
	}
	return slices.Contains(o.Capabilities, capability)
}

// atLeast reports whether the kernel is at least version.major.
func (o *Options) atLeast(version, major uint64) bool {
	return o.Kernel == seccompdata.Kernel{} || o.Kernel.AtLeast(int(version), int(major))
}

// DockerCapabilities are those of a container that Docker starts without
// --cap-add, --cap-drop or --privileged (moby, oci/caps/defaults.go).
var DockerCapabilities = []string{
	"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD",
	"CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT",
}

// capabilities are all there are, in the order of their bits (linux/capability.h).
var capabilities = strings.Fields(`
	CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
	NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO
	SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME
	SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG
	WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE`)

// ParseCapabilities reads a list separated by commas: capabilities with or
// without CAP_, "default" for Docker's, "all", "none"; a minus before a
// capability takes it away. "default,SYS_ADMIN" is what docker run
// --cap-add SYS_ADMIN gives.
func ParseCapabilities(text string) ([]string, error) {
	out := []string{}
	for part := range strings.SplitSeq(text, ",") {
		name, without := strings.CutPrefix(strings.TrimSpace(part), "-")
		name = strings.TrimPrefix(strings.ToUpper(name), "CAP_")
		switch {
		case name == "" || name == "NONE":
		case name == "DEFAULT":
			out = append(out, DockerCapabilities...)
		case name == "ALL":
			for _, c := range capabilities {
				out = append(out, "CAP_"+c)
			}
		case !slices.Contains(capabilities, name):
			return nil, fmt.Errorf("unknown capability %q; known are default, all, none and %s", part, strings.ToLower(strings.Join(capabilities, ", ")))
		case without:
			out = slices.DeleteFunc(out, func(c string) bool { return c == "CAP_"+name })
		default:
			out = append(out, "CAP_"+name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
