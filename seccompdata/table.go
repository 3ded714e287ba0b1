package seccompdata

import (
	"maps"
	"slices"
	"sync"

	"github.com/elastic/go-seccomp-bpf/arch"
)

// table is a system call table. The numbers of all but the newest calls are
// those of elastic's module, which generates them from Linux 6.15; what it has
// wrong or lacks is put right by edits.
type table struct {
	names   map[uint32]string
	numbers map[string]uint32
	sorted  []uint32
}

// edit changes a table in the making; its numbers have no bit set.
type edit func(names map[uint32]string)

// tableOf returns what makes a table, once.
func tableOf(info *arch.Info, bit uint32, edits ...edit) func() *table {
	return sync.OnceValue(func() *table { return newTable(info, bit, edits...) })
}

func newTable(info *arch.Info, bit uint32, edits ...edit) *table {
	names := map[uint32]string{}
	for nr, name := range info.SyscallNumbers {
		names[uint32(nr)] = name
	}
	maps.Copy(names, newerCalls)
	for _, change := range edits {
		change(names)
	}
	t := &table{names: map[uint32]string{}, numbers: map[string]uint32{}}
	for _, nr := range slices.Sorted(maps.Keys(names)) {
		t.names[nr|bit], t.numbers[names[nr]] = names[nr], nr|bit
		t.sorted = append(t.sorted, nr|bit)
	}
	return t
}

// Call returns the name of the system call with the number nr, which has the
// ABI's bit set.
func (a *ABI) Call(nr uint32) (string, bool) {
	name, ok := a.table().names[nr]
	return name, ok
}

// Number returns the number of the system call, with the ABI's bit set.
func (a *ABI) Number(name string) (uint32, bool) {
	nr, ok := a.table().numbers[name]
	return nr, ok
}

// Numbers returns the numbers of all named calls, in ascending order, with the
// ABI's bit set.
func (a *ABI) Numbers() []uint32 { return slices.Clone(a.table().sorted) }

// Last returns the highest number that has a name, with the ABI's bit set. ARM's
// private calls are left out.
func (a *ABI) Last() uint32 {
	last := uint32(0)
	for _, nr := range a.table().sorted {
		if nr&^a.Bit < firstPrivate {
			last = max(last, nr)
		}
	}
	return last
}

// newerCalls are the calls of all ABIs that came after Linux 6.15 (asm/unistd.h
// up to Linux 7.0, by way of golang.org/x/sys/unix v0.50.0, zsysnum_linux_*.go).
var newerCalls = map[uint32]string{
	468: "file_getattr", 469: "file_setattr", 470: "listns", 471: "rseq_slice_yield",
}

// onlyX86_64 has what is on x86_64 alone, and newer than Linux 6.15.
func onlyX86_64(names map[uint32]string) { names[336] = "uprobe" }

// firstOfX32 is the first of the numbers that are x32's own: calls whose
// arguments are laid out otherwise than on x86_64. The numbers that these calls
// have on x86_64 are none of x32.
const firstOfX32 = 512

// notX32 removes the calls of x86_64 that x32 has not: those that have a number
// of x32's own, and some that the table marks "64" (Linux,
// arch/x86/entry/syscalls/syscall_64.tbl): they are obsolete, or make no sense.
func notX32(names map[uint32]string) {
	own := map[string]bool{}
	for nr, name := range names {
		own[name] = own[name] || nr >= firstOfX32
	}
	maps.DeleteFunc(names, func(nr uint32, name string) bool {
		return nr < firstOfX32 && (own[name] || slices.Contains(marked64, name))
	})
	onlyX86_64(names)
}

var marked64 = []string{
	"uselib", "_sysctl", "create_module", "get_kernel_syms", "query_module", "nfsservctl",
	"set_thread_area", "get_thread_area", "epoll_ctl_old", "epoll_wait_old", "vserver", "map_shadow_stack",
}

// notAARCH64 removes what the table of all new architectures has and AARCH64 has
// not: calls with 64-bit times, which are for 32-bit machines, and a place where
// architectures begin to differ. One call has another name where it is 64 bits
// wide (Linux, asm-generic/unistd.h).
func notAARCH64(names map[uint32]string) {
	const firstTime64, lastTime64, archSpecific, fstatat = 403, 423, 244, 79
	maps.DeleteFunc(names, func(nr uint32, _ string) bool {
		return nr >= firstTime64 && nr <= lastTime64 || nr == archSpecific
	})
	names[fstatat] = "newfstatat"
}
