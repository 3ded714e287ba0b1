// Package btflayout reads the struct layouts that compiled filters depend on
// from a kernel's BTF.
package btflayout

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cilium/ebpf/btf"

	"github.com/kjit-project/kjit/kernelabi"
)

// Error is a file without the layouts.
type Error struct {
	File   string
	Reason string
}

func (e *Error) Error() string { return e.File + ": " + e.Reason }

// fields are the members to look for, by the names they had over time. A kernel
// need not have all of them.
var fields = []struct {
	field   string
	of      string
	members []string
}{
	{kernelabi.SkbLen, "sk_buff", []string{"len"}},
	{kernelabi.SkbDataLen, "sk_buff", []string{"data_len"}},
	{kernelabi.SkbData, "sk_buff", []string{"data"}},
	{kernelabi.SkbHead, "sk_buff", []string{"head"}},
	{kernelabi.SkbTail, "sk_buff", []string{"tail"}},
	{kernelabi.SkbEnd, "sk_buff", []string{"end"}},
	{kernelabi.SkbProtocol, "sk_buff", []string{"protocol"}},
	{kernelabi.SkbPktType, "sk_buff", []string{"pkt_type"}},
	{kernelabi.SkbMark, "sk_buff", []string{"mark"}},
	{kernelabi.SkbRxhash, "sk_buff", []string{"hash", "rxhash"}},
	{kernelabi.SkbQueue, "sk_buff", []string{"queue_mapping"}},
	{kernelabi.SkbVlanTCI, "sk_buff", []string{"vlan_tci"}},
	{kernelabi.SkbVlanProto, "sk_buff", []string{"vlan_proto"}},
	{kernelabi.SkbVlanPresent, "sk_buff", []string{"vlan_present"}},
	{kernelabi.SkbVlanAll, "sk_buff", []string{"vlan_all"}},
	{kernelabi.SkbDev, "sk_buff", []string{"dev"}},
	{kernelabi.SkbIif, "sk_buff", []string{"skb_iif"}},
	{kernelabi.SkbMacHeader, "sk_buff", []string{"mac_header"}},
	{kernelabi.SkbNetHeader, "sk_buff", []string{"network_header"}},
	{kernelabi.SkbTransport, "sk_buff", []string{"transport_header"}},
	{kernelabi.DevIfindex, "net_device", []string{"ifindex"}},
	{kernelabi.DevType, "net_device", []string{"type"}},
}

// needed are the fields without which no packet can be loaded.
var needed = []string{kernelabi.SkbLen, kernelabi.SkbDataLen, kernelabi.SkbData}

// Read returns the layout that the BTF in data describes: a raw blob such as
// /sys/kernel/btf/vmlinux, or an ELF file with a .BTF section, such as a vmlinux
// with debug information. Fields that the kernel does not have are left out. The
// error is an *Error.
func Read(file string, data []byte) (layout kernelabi.Layout, err error) {
	// The BTF of a stranger goes through a parser that others wrote.
	defer func() {
		if p := recover(); p != nil {
			layout, err = nil, &Error{file, fmt.Sprintf("the BTF cannot be read: %v", p)}
		}
	}()
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(data))
	if err != nil {
		return nil, &Error{file, fmt.Sprintf("no BTF can be read from it: %v", err)}
	}
	layout = kernelabi.Layout{}
	for _, name := range []string{"sk_buff", "net_device"} {
		s, err := structOf(spec, name)
		if err != nil {
			return nil, &Error{file, err.Error()}
		}
		if name == "sk_buff" {
			layout[kernelabi.SkbSize] = int(s.Size)
		}
		for _, f := range fields {
			if f.of != name {
				continue
			}
			for _, member := range f.members {
				if off, _, ok := Member(s, member); ok {
					layout[f.field] = int(off.Bytes())
					break
				}
			}
		}
	}
	for _, field := range needed {
		if _, ok := layout[field]; !ok {
			return nil, &Error{file, fmt.Sprintf("its struct sk_buff has no member for %s", field)}
		}
	}
	return layout, nil
}

// structOf finds a struct. A kernel may have several of a name in different
// modules' terms; the largest is the complete one.
func structOf(spec *btf.Spec, name string) (*btf.Struct, error) {
	types, err := spec.AnyTypesByName(name)
	if err != nil && !errors.Is(err, btf.ErrNotFound) {
		return nil, fmt.Errorf("struct %s: %w", name, err)
	}
	var largest *btf.Struct
	for _, t := range types {
		if s, ok := t.(*btf.Struct); ok && (largest == nil || s.Size > largest.Size) {
			largest = s
		}
	}
	if largest == nil {
		return nil, fmt.Errorf("it describes no struct %s", name)
	}
	return largest, nil
}

// maxDepth bounds the nesting of structs without a name.
const maxDepth = 16

// Member returns the offset and the type of a member of a struct or union, also
// of one in a struct or union without a name.
func Member(t btf.Type, name string) (off btf.Bits, of btf.Type, ok bool) {
	return find(t, name, 0)
}

func find(t btf.Type, name string, depth int) (off btf.Bits, of btf.Type, ok bool) {
	var members []btf.Member
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		members = t.Members
	case *btf.Union:
		members = t.Members
	}
	for _, m := range members {
		if m.Name == name {
			return m.Offset, m.Type, true
		}
		if m.Name != "" || depth == maxDepth {
			continue
		}
		if off, of, ok := find(m.Type, name, depth+1); ok {
			return m.Offset + off, of, true
		}
	}
	return 0, nil, false
}
