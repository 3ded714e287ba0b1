package listing

import (
	"bufio"
	"fmt"
	"io"

	"github.com/kjit-project/kjit/kernelabi"
)

// KernelLog writes img as kernels do with bpf_jit_enable = 2, in the form of
// Linux 3.0 to 3.10, whose lines begin with the address (Linux 3.11 and later:
// the offset).
func KernelLog(w io.Writer, img *kernelabi.Image) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "flen=%d proglen=%d pass=%d image=%016x\n", img.Insns, len(img.Code), img.Pass, img.Base)
	for off := 0; off < len(img.Code); off += 16 {
		fmt.Fprintf(b, "JIT code: %016x:", img.Base+uint64(off))
		for _, c := range img.Code[off:min(off+16, len(img.Code))] {
			fmt.Fprintf(b, " %02x", c)
		}
		fmt.Fprintln(b)
	}
	return b.Flush()
}
