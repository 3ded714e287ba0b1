package policy

import (
	"encoding/json"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/kjit-project/kjit/seccompdata"
)

// The embedded profile is the one of the module that is required.
func TestEmbeddedProfileIsMobys(t *testing.T) {
	var ours any
	if err := json.Unmarshal(DockerDefaultProfile(), &ours); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(seccomp.DefaultProfile())
	if err != nil {
		t.Fatal(err)
	}
	var theirs any
	if err := json.Unmarshal(text, &theirs); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(theirs, ours); diff != "" {
		t.Errorf("copy default.json of github.com/moby/profiles/seccomp to docker-default.json:\n%s", diff)
	}
}

// Conditions on containers are decided as moby does it for the machine that it
// runs on.
func TestConditionsAreMobys(t *testing.T) {
	var native *seccompdata.ABI
	for abi, arch := range map[*seccompdata.ABI]string{seccompdata.X86_64: "amd64", seccompdata.I386: "386", seccompdata.ARM: "arm", seccompdata.AARCH64: "arm64"} {
		if arch == runtime.GOARCH {
			native = abi
		}
	}
	if native == nil {
		t.Skip("skipped: no system calls of ", runtime.GOARCH)
	}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		t.Fatal(err)
	}
	kernel, err := seccompdata.ParseKernel(unix.ByteSliceToString(uts.Release[:]))
	if err != nil {
		t.Fatal(err)
	}
	var everything []string
	for _, c := range capabilities {
		everything = append(everything, "CAP_"+c)
	}
	sets := [][]string{{}, DockerCapabilities, everything}
	for _, c := range everything {
		sets = append(sets, []string{c})
	}
	for _, caps := range sets {
		spec := &specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{Bounding: caps}}}
		theirs, err := seccomp.GetDefaultProfile(spec)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := DockerDefault(Options{Native: native, Capabilities: caps, Kernel: kernel})
		if err != nil {
			t.Fatal(err)
		}
		got, want := map[string]bool{}, map[string]bool{}
		for _, r := range ours.Rules {
			if r.ABI == native {
				got[r.Call] = true
			}
		}
		for _, rule := range theirs.Syscalls {
			for _, name := range rule.Names {
				if _, ok := native.Number(name); ok {
					want[name] = true
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("with %v:\n%s", caps, diff)
		}
		var abis []*seccompdata.ABI
		for _, arch := range theirs.Architectures {
			abi, err := seccompdata.ABIByName(string(arch))
			if err != nil {
				t.Fatal(err)
			}
			abis = append(abis, abi)
		}
		if !slices.Equal(ours.ABIs, abis) && len(abis) > 0 {
			t.Errorf("the ABIs are %v, want %v", ours.ABIs, abis)
		}
	}
}
