package emulator

// The batch driver is guest code that calls the image once for every input of a
// window, so that entering and leaving the engine is paid for once. It finds
// what to do in the control page.
//
//	control page:  0 cursor   address of the descriptor of the input that runs
//	               8 entry    address of the image
//	              32 cpu      ARM: the processor number
//	              64 ...      descriptors; behind the last one with skb 0
//	descriptor:    0 skb, 8 value returned, 12 promises broken
//
// Addresses take 8 bytes on all architectures.
//
// Its blocks and memory accesses are most of what an input costs beside the
// code under test. So the way from one input to the next is one block without
// a branch (the jump to the image goes elsewhere if there is anything to do),
// registers that code has to preserve are set once and again only after code
// that did not, and what all inputs of a window have in common is not in the
// descriptors.
const (
	ctlCursor      = 0
	ctlEntry       = 8
	ctlCPU         = 32 // ARM: the processor number, unless it is in struct thread_info
	ctlDescriptors = 64

	descSkb    = 0
	descValue  = 8
	descBroken = 12
	descSize   = 16
)

// driver is the assembled driver.
type driver struct {
	code   []byte
	begin  uint64 // where a window starts
	first  uint64 // the block that calls the image for the first input
	leave  uint64 // the block that code returns to, which calls it for the next
	pause  uint64 // the block that comes instead of the image when there is something to do
	halt   uint64 // the instruction that ends the window
	halted uint64 // program counter after it
}
