package seccompdata

import "sort"

// firstPrivate is the first number that an architecture may have for calls of
// its own beside the table (__ARM_NR_BASE); x32's bit is above it.
const firstPrivate = 0x0f0000

// Since returns the release in which a call appeared: for the numbers from 403
// on, which came with Linux 5.1 and later and are the same everywhere, and for
// the last of x86_64 below. Of all others it gives the zero Kernel, as if they had
// always been there; kernels with a cache have them all.
func Since(a *ABI, nr uint32) Kernel {
	nr &^= a.Bit
	if a.Arch == ArchX86_64 {
		if k, ok := sinceX86_64[nr]; ok {
			return k
		}
	}
	if nr < since[0].nr || nr >= firstOfX32 {
		return Kernel{}
	}
	i := sort.Search(len(since), func(i int) bool { return since[i].nr > nr })
	return since[i-1].in
}

// since has the first call of each release that brought some.
var since = []struct {
	nr uint32
	in Kernel
}{
	{403, Kernel{5, 1}},  // clock_gettime64 to io_uring_register
	{428, Kernel{5, 2}},  // open_tree
	{434, Kernel{5, 3}},  // pidfd_open, clone3
	{436, Kernel{5, 9}},  // close_range
	{437, Kernel{5, 6}},  // openat2, pidfd_getfd
	{439, Kernel{5, 8}},  // faccessat2
	{440, Kernel{5, 10}}, // process_madvise
	{441, Kernel{5, 11}}, // epoll_pwait2
	{442, Kernel{5, 12}}, // mount_setattr
	{443, Kernel{5, 14}}, // quotactl_fd
	{444, Kernel{5, 13}}, // landlock_*
	{447, Kernel{5, 14}}, // memfd_secret
	{448, Kernel{5, 15}}, // process_mrelease
	{449, Kernel{5, 16}}, // futex_waitv
	{450, Kernel{5, 17}}, // set_mempolicy_home_node
	{451, Kernel{6, 5}},  // cachestat
	{452, Kernel{6, 6}},  // fchmodat2, map_shadow_stack
	{454, Kernel{6, 7}},  // futex_wake, futex_wait, futex_requeue
	{457, Kernel{6, 8}},  // statmount to lsm_list_modules
	{462, Kernel{6, 10}}, // mseal
	{463, Kernel{6, 13}}, // *xattrat
	{467, Kernel{6, 15}}, // open_tree_attr
	{468, Kernel{6, 17}}, // file_getattr, file_setattr
	{470, Kernel{6, 19}}, // listns
	{471, Kernel{7, 0}},  // rseq_slice_yield
}

var sinceX86_64 = map[uint32]Kernel{
	332: {4, 11}, // statx
	333: {4, 18}, // io_pgetevents
	334: {4, 18}, // rseq
	335: {6, 11}, // uretprobe
	336: {6, 18}, // uprobe
}
