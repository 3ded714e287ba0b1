package seccompdata

import "testing"

func TestSince(t *testing.T) {
	for _, tt := range []struct {
		desc string
		abi  *ABI
		nr   uint32
		want Kernel
	}{
		{"Old calls have always been there.", X86_64, 0, Kernel{}},
		{"The first of the common numbers came with 5.1.", I386, 403, Kernel{5, 1}},
		{"pidfd_getfd came with openat2.", ARM, 438, Kernel{5, 6}},
		{"close_range came later than its neighbours.", AARCH64, 436, Kernel{5, 9}},
		{"x32 has the common numbers with its bit.", X32, X32Bit | 449, Kernel{5, 16}},
		{"x32's own numbers are old.", X32, X32Bit | 520, Kernel{}},
		{"uretprobe came with 6.11.", X86_64, 335, Kernel{6, 11}},
		{"335 is an old call on i386.", I386, 335, Kernel{}},
		{"ARM's private calls are old.", ARM, 0x0f0005, Kernel{}},
	} {
		if got := Since(tt.abi, tt.nr); got != tt.want {
			t.Errorf("%s got %s", tt.desc, got)
		}
	}
	for i := 1; i < len(since); i++ {
		if since[i].nr <= since[i-1].nr {
			t.Errorf("%d is not behind %d", since[i].nr, since[i-1].nr)
		}
	}
}
