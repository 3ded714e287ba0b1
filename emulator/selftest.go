package emulator

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/kjit-project/kjit/emulator/internal/uc"
	"github.com/kjit-project/kjit/kernelabi"
)

// Check is one property of the emulator that everything else relies on.
type Check struct {
	Name   string // "x86_64: guard pages"
	Detail string // what was seen
	Err    error  // nil: it holds
}

// selfTest is one of an architecture's own checks.
type selfTest struct {
	name string
	run  func(*Machine) (string, error)
}

// selfCode is the code that the checks which all architectures share are made
// of.
type selfCode struct {
	load, store, jumpTo func(addr uint64) []byte // access an address
	behindPacket        []byte                   // load the byte behind a packet of selfPacket bytes
	toPacket            []byte                   // store to its first byte
	endless             []byte
	nop                 []byte
	returning           func(value uint32) []byte
}

// selfMachine is a processor to check.
type selfMachine struct {
	name    string
	profile kernelabi.Profile
	code    *selfCode
	tests   []selfTest
}

// LibraryVersion is the version of the Unicorn library that is linked in, as far
// as the library knows it: major.minor.
func LibraryVersion() string {
	major, minor := uc.Version()
	return fmt.Sprintf("%d.%d", major, minor)
}

// SelfTest checks on this host, with the library that is linked in, what the
// verdicts about images rely on: that forbidden accesses fault and are told
// apart, that code is never stale, that endless code ends.
func SelfTest() []Check {
	library := "Unicorn " + LibraryVersion()
	checks := []Check{{Name: "library", Detail: library + ", as the binding expects"}}
	for _, s := range append([]selfMachine{selfX86}, selfARM...) {
		s.profile.Name = "self-test"
		m, err := New(&s.profile, withUserPage)
		if err != nil {
			checks = append(checks, Check{Name: s.name, Detail: library, Err: err})
			continue
		}
		for _, test := range append(s.code.tests(m), s.tests...) {
			detail, err := test.run(m)
			checks = append(checks, Check{Name: s.name + ": " + test.name, Detail: detail, Err: err})
		}
		m.Close()
	}
	return checks
}

// tests are the checks that all architectures share.
func (c *selfCode) tests(m *Machine) []selfTest {
	return []selfTest{
		{"code is read-only", expect(c.store(m.profile.Base), Protection, Write)},
		{"packets are read-only", expect(c.toPacket, Protection, Write)},
		{"guard pages", expect(c.behindPacket, NotPresent, Read)},
		{"three faults in a row", c.faults},
		{"code is never stale", c.stale},
		{"endless code ends", c.loop},
	}
}

const selfPacket = 60 // bytes of the self-test's packet

// selfRun runs code on one packet of selfPacket bytes, n times.
func selfRun(m *Machine, image []byte, n int) ([]Result, error) {
	if err := m.Load(&kernelabi.Image{Code: image, Base: m.profile.Base}); err != nil {
		return nil, err
	}
	inputs := make([]kernelabi.Input, n)
	for i := range inputs {
		inputs[i] = kernelabi.NewSkb(make([]byte, selfPacket))
	}
	return m.Run(inputs, nil)
}

// expect checks that code ends with a page fault.
func expect(image []byte, kind FaultKind, access Access) func(*Machine) (string, error) {
	return func(m *Machine) (string, error) {
		results, err := selfRun(m, image, 1)
		if err != nil {
			return "", err
		}
		f := results[0].Fault
		if f == nil {
			return "", errors.New("the access was allowed")
		}
		if f.Kind != kind || f.Access != access && f.Access != ReadOrWrite {
			return f.Error(), fmt.Errorf("want %s: %s", kind, access)
		}
		return f.Error(), nil
	}
}

// faults: Unicorn turns a second x86 exception into a double fault and drops
// the third, unless the state is restored in between.
func (c *selfCode) faults(m *Machine) (string, error) {
	results, err := selfRun(m, c.load(0), 3)
	if err != nil {
		return "", err
	}
	var seen []string
	for i, r := range results {
		if r.Fault == nil || r.Fault.Kind != NotPresent {
			return "", fmt.Errorf("fault %d of 3 was seen as %+v", i+1, r)
		}
		seen = append(seen, r.Fault.Kind.String())
	}
	return strings.Join(seen, ", "), nil
}

// stale: Unicorn does not notice that code it has translated changes.
func (c *selfCode) stale(m *Machine) (string, error) {
	const programs = 64
	for i := range uint32(programs) {
		image := c.returning(i)
		if i%2 == 1 { // the engine's pages may be smaller than the processor's
			image = append(bytes.Repeat(c.nop, 3000/len(c.nop)), image...)
		}
		results, err := selfRun(m, image, 2)
		if err != nil {
			return "", err
		}
		for _, r := range results {
			if r.Value != i || r.Fault != nil {
				return "", fmt.Errorf("program %d of %d at one address returned %d (%v)", i, programs, r.Value, r.Fault)
			}
		}
	}
	return fmt.Sprintf("%d programs at one address", programs), nil
}

// loop: a loop that is warm calls no hook but that of blocks.
func (c *selfCode) loop(m *Machine) (string, error) {
	results, err := selfRun(m, c.endless, 2)
	if err != nil {
		return "", err
	}
	for _, r := range results {
		if r.Fault == nil || r.Fault.Kind != Timeout {
			return "", fmt.Errorf("a jump to itself ended with %+v", r)
		}
	}
	return results[0].Fault.Error(), nil
}
