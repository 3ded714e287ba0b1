package mutants

import "slices"

// Invisible is a fault that kernels shipped and that no image shows, or none that
// the emulator's processors run differently.
type Invisible struct {
	Name     string `json:"name"`
	Versions string `json:"versions"`
	Why      string `json:"why"` // it cannot be found in what the code does
}

// Invisibles lists them.
func Invisibles() []Invisible { return slices.Clone(invisibles) }

var invisibles = []Invisible{
	{"x86-neg-size-reg", "3.4 to 3.13 before stable fixes (fdfaf64e7539)", "a fault of the load helpers, which take a size from the wrong register; the emitted code is right"},
	{"x86-equal-targets", "none: a trap", "jumps with jt = jf that compare all the same behave alike; the golden images show it"},
	{"x86-softirq-free", "before 650c8496702a and d45ed4a4e33a", "how images are freed; no byte of them differs"},
	{"x86-predictable", "before 314beb9bcabf", "where images lie, and that they are writable; no byte of them differs"},
	{"x86-hole-header", "before 773cd38f40b8", "which header is freed when the hole in front of an image crosses a page; no byte of the image differs"},
	{"arm-alloc-args", "3.4 to 3.6, perhaps up to 3.11", "an allocation with its size and flags swapped overflows the heap; the code is right"},
	{"arm-ldrh-offset", "all", "16-bit fields beyond offset 255, which no layout of these kernels has"},
	{"arm-stack-align", "all", "helpers are called with a stack aligned to 4; told beside a run as information, because no helper minds"},
	{"arm-umull-overlap", "3.4 to 3.13, on ARMv5", "a product in a factor's register: unpredictable before ARMv6, and the emulator predicts what most processors do"},
	{"arm-word-unaligned-v5", "none: a trap", "words loaded in one go on ARMv5: the emulator does not rotate them as the processor would; kjit replay --check-accesses tells"},
	{"arm-be", "big endian kernels", "profiles are little endian"},
	{"arm-softirq-free", "before d45ed4a4e33a and 55309dd3d4cd", "how images are freed, placed and protected; no byte of them differs"},
}

func invisible(name string) (why string, ok bool) {
	for _, i := range invisibles {
		if i.Name == name {
			return i.Why, true
		}
	}
	return "", false
}
