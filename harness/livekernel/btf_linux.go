package livekernel

import (
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// btfStructs are the structs of a kernel that has BTF.
type btfStructs struct{ spec *btf.Spec }

// offset finds a field by its path, "task_struct.seccomp.filter". Members
// without a name are looked through.
func (b btfStructs) offset(field string) (uint64, error) {
	path := strings.Split(field, ".")
	var t btf.Type
	var root *btf.Struct
	if err := b.spec.TypeByName(path[0], &root); err != nil {
		return 0, fmt.Errorf("struct %s is not in the kernel's BTF: %w", path[0], err)
	}
	t = root
	total := uint32(0)
	for _, name := range path[1:] {
		off, of, ok := member(t, name)
		if !ok {
			return 0, fmt.Errorf("the kernel's BTF has no %s (%s)", name, field)
		}
		total, t = total+off, of
	}
	return uint64(total), nil
}

// member finds a member of a struct or union, with its offset in bytes.
func member(t btf.Type, name string) (off uint32, of btf.Type, ok bool) {
	var members []btf.Member
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		members = t.Members
	case *btf.Union:
		members = t.Members
	}
	for _, m := range members {
		if m.Name == name {
			return m.Offset.Bytes(), m.Type, true
		}
		if m.Name == "" {
			if off, of, ok := member(m.Type, name); ok {
				return m.Offset.Bytes() + off, of, true
			}
		}
	}
	return 0, nil, false
}
