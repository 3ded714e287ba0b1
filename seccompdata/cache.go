package seccompdata

import (
	"slices"

	"github.com/kjit-project/kjit/bpf"
)

// Why says what ended the proof that a filter allows a call whatever its
// arguments.
type Why string

const (
	WhyProved Why = ""       // nothing: it is proved
	WhyLoad   Why = "load"   // a load of something else than number and architecture
	WhyOpcode Why = "opcode" // an instruction that the kernel does not follow
	WhyRet    Why = "ret"    // a return of a constant that is not exactly ALLOW
)

// String is the reason in words.
func (w Why) String() string {
	switch w {
	case WhyLoad:
		return "loads more than number and architecture"
	case WhyOpcode:
		return "not followed by the kernel"
	case WhyRet:
		return "does not return ALLOW"
	}
	return "proved"
}

// Proof is what came of the attempt to prove that a filter allows a call.
type Proof struct {
	Allowed bool
	PC      int // the return, or the instruction that ended the attempt
	Why     Why // WhyProved if and only if Allowed
}

// ConstAllow tries to prove that the filter allows the call number nr of an
// architecture whatever its arguments, as Linux does since 5.11: it follows the
// program that was attached as far as it depends on number and architecture
// alone (kernel/seccomp.c, seccomp_is_const_allow). Registers other than A it
// does not know, nor any arithmetic but AND K.
func (f *Filter) ConstAllow(nr, arch uint32) Proof {
	a := uint32(0)
	for pc := 0; pc < len(f.prog); pc++ {
		ins := f.prog[pc]
		switch ins.Code {
		case bpf.LdWAbs:
			switch ins.K {
			case OffNr:
				a = nr
			case OffArch:
				a = arch
			default:
				return Proof{PC: pc, Why: WhyLoad}
			}
		case bpf.RetK:
			if ins.K != uint32(Allow) {
				return Proof{PC: pc, Why: WhyRet}
			}
			return Proof{Allowed: true, PC: pc}
		case bpf.Ja:
			pc += int(ins.K)
		case bpf.JeqK:
			pc += skip(ins, a == ins.K)
		case bpf.JgtK:
			pc += skip(ins, a > ins.K)
		case bpf.JgeK:
			pc += skip(ins, a >= ins.K)
		case bpf.JsetK:
			pc += skip(ins, a&ins.K != 0)
		case bpf.AndK:
			a &= ins.K
		default:
			return Proof{PC: pc, Why: WhyOpcode}
		}
	}
	// No checked program gets here.
	return Proof{PC: len(f.prog) - 1, Why: WhyOpcode}
}

func skip(ins bpf.Instruction, condition bool) int {
	if condition {
		return int(ins.JT)
	}
	return int(ins.JF)
}

// Cache is the constant-action cache of a chain: the calls that a kernel lets
// pass without running any filter. It belongs to the newest filter; the caches
// of the filters below took part in making it.
type Cache struct {
	Kernel Kernel
	Tables []CacheTable // of each ABI that the kernel has a table for: none before 5.11
}

// CacheTable is the cache for one ABI.
type CacheTable struct {
	ABI     *ABI
	Entries []CacheEntry // by number; there are none for numbers beyond the kernel's table
}

// CacheEntry is what the cache has for a call.
type CacheEntry struct {
	Cached bool
	Exempt bool // it passes even against the filters
	Filter int  // the filter that lost the entry, 0 is the oldest; -1: none
	Proof       // of that filter, or of the newest
}

// cacheABIs are the ABIs for which a kernel keeps tables: its own, and the 32-bit
// one that it also runs. x32 has none.
var cacheABIs = map[*ABI][]*ABI{
	X86_64: {X86_64, I386}, I386: {I386}, ARM: {ARM}, AARCH64: {AARCH64, ARM},
}

// NativeOf returns the ABI of the kernels that run calls of a: x86_64 for itself,
// i386 and x32.
func NativeOf(a *ABI) *ABI {
	switch a {
	case I386, X32:
		return X86_64
	}
	return a
}

// NewCache makes the cache as a kernel for the ABI native does: at each attach
// the entries of the filter before are copied, and those of calls that the new
// filter is not proved to allow are cleared.
func NewCache(c Chain, native *ABI, k Kernel) *Cache {
	cache := &Cache{Kernel: k}
	if !k.AtLeast(5, 11) {
		return cache
	}
	filters := c.Filters()
	for _, abi := range cacheABIs[native] {
		t := CacheTable{ABI: abi, Entries: make([]CacheEntry, abi.TableSizeOn(native, k))}
		for nr := range t.Entries {
			t.Entries[nr] = newEntry(filters, uint32(nr), abi.Arch, k)
		}
		cache.Tables = append(cache.Tables, t)
	}
	return cache
}

func newEntry(filters []Attached, nr, arch uint32, k Kernel) CacheEntry {
	e := CacheEntry{Cached: len(filters) > 0, Filter: -1, Exempt: Exempt(arch, nr, k)}
	if e.Exempt {
		e.Cached = true
		return e
	}
	for i, f := range filters {
		if e.Proof = f.ConstAllow(nr, arch); !e.Allowed {
			e.Cached, e.Filter = false, i
			break // bits are only cleared
		}
	}
	return e
}

// Table returns the table for an ABI, or nil.
func (c *Cache) Table(abi *ABI) *CacheTable {
	i := slices.IndexFunc(c.Tables, func(t CacheTable) bool { return t.ABI == abi })
	if i < 0 {
		return nil
	}
	return &c.Tables[i]
}

// Has reports whether a call passes without any filter being run. A number that
// is negative or beyond the table never does.
func (c *Cache) Has(arch, nr uint32) bool {
	for _, t := range c.Tables {
		if t.ABI.Arch == arch {
			return nr < uint32(len(t.Entries)) && t.Entries[nr].Cached
		}
	}
	return false
}
