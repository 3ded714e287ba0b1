package bpf

// Input is what a program reads. Packets (kernelabi.Skb) and system calls
// (seccompdata.Data) implement it.
type Input interface {
	// Len is the value of LD LEN and LDX LEN.
	Len() uint32

	// Linear returns the bytes that plain offsets can reach directly, starting
	// at offset 0; the interpreter loads from them in big endian without
	// calling Load. It may be nil. The interpreter does not change it.
	Linear() []byte

	// Load reads size (1, 2 or 4) bytes at off: the interpreter calls it for
	// what Linear does not hold, negative offsets (off as int32) among it.
	// ok = false ends the program with 0.
	Load(off uint32, size int) (value uint32, ok bool)

	// Extension performs an ancillary load other than ExtXorX.
	// ok = false ends the program with value.
	Extension(ext Extension, a, x uint32) (value uint32, ok bool)
}
