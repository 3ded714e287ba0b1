package livekernel

import (
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/kjit-project/kjit/kernelabi/btflayout"
)

// btfStructs are the structs of a kernel that has BTF.
type btfStructs struct{ spec *btf.Spec }

// offset finds a field by its path, "task_struct.seccomp.filter". Members
// without a name are looked through.
func (b btfStructs) offset(field string) (uint64, error) {
	path := strings.Split(field, ".")
	var root *btf.Struct
	if err := b.spec.TypeByName(path[0], &root); err != nil {
		return 0, fmt.Errorf("struct %s is not in the kernel's BTF: %w", path[0], err)
	}
	t, total := btf.Type(root), btf.Bits(0)
	for _, name := range path[1:] {
		off, of, ok := btflayout.Member(t, name)
		if !ok {
			return 0, fmt.Errorf("the kernel's BTF has no %s (%s)", name, field)
		}
		total, t = total+off, of
	}
	return uint64(total.Bytes()), nil
}
