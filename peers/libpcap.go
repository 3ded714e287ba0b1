package peers

// #include <stdint.h>
//
// // struct bpf_insn, as every BSD has it.
// struct kp_insn { uint16_t code; uint8_t jt, jf; uint32_t k; };
//
// typedef unsigned kp_filter(const struct kp_insn *, const unsigned char *, unsigned, unsigned);
// typedef int kp_validate(const struct kp_insn *, int);
// typedef const char *kp_version(void);
//
// static unsigned kp_run(void *f, const struct kp_insn *prog, const unsigned char *data, unsigned size) {
// 	return ((kp_filter *)f)(prog, data, size, size);
// }
// // Runs it on n packets, one behind the other in data: the i-th ends at ends[i].
// static unsigned kp_run_all(void *f, const struct kp_insn *prog, const unsigned char *data, const uint32_t *ends, int n) {
// 	unsigned sum = 0, at = 0;
// 	for (int i = 0; i < n; at = ends[i++])
// 		sum += ((kp_filter *)f)(prog, data + at, ends[i] - at, ends[i] - at);
// 	return sum;
// }
// static int kp_check(void *f, const struct kp_insn *prog, int count) { return ((kp_validate *)f)(prog, count); }
// static const char *kp_about(void *f) { return ((kp_version *)f)(); }
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// libpcapFiles are the names of the library: of Debian, of all others, of macOS.
var libpcapFiles = []string{"libpcap.so.0.8", "libpcap.so.1", "libpcap.so", "libpcap.A.dylib"}

// libpcap is the library, opened at the first use.
var libpcap = sync.OnceValues(func() (*library, error) {
	var lib library
	found, err := openShared(libpcapFiles, []symbol{
		{"bpf_filter", &lib.filter}, {"bpf_validate", &lib.validate}, {"pcap_lib_version", &lib.version},
	})
	if !found {
		return nil, fmt.Errorf("libpcap is not installed (looked for %s): install libpcap0.8 or libpcap", strings.Join(libpcapFiles, ", "))
	}
	return &lib, err
})

// library holds the addresses of libpcap's functions.
type library struct {
	filter, validate, version unsafe.Pointer
}

// NewLibpcap returns bpf_filter of the installed libpcap, behind bpf_validate;
// its error says that there is none.
func NewLibpcap() (*Peer, error) {
	lib, err := libpcap()
	if err != nil {
		return nil, err
	}
	about := C.GoString(C.kp_about(lib.version)) // "libpcap version 1.10.3 (with ...)"
	name, _, _ := strings.Cut(about, " (")
	return &Peer{
		name:    strings.Replace(name, " version", "", 1),
		profile: kernelabi.Current(),
		lacks:   lacksLinux,
		words:   binary.BigEndian,
		load:    lib.load,
		stops:   []stop{negative, noWrap},
		shifts:  shiftsToZero,
	}, nil
}

// LoopInC returns a function that runs the program on all packets, and returns the
// sum of the values, with nothing but C around libpcap's bpf_filter: what it costs
// without the way from Go to C and back for every packet.
func LoopInC(prog bpf.Program, packets [][]byte) (func() uint32, error) {
	lib, err := libpcap()
	if err != nil {
		return nil, err
	}
	insns, err := lib.validated(prog)
	if err != nil {
		return nil, err
	}
	data := slices.Concat(packets...)
	ends, end := make([]C.uint32_t, len(packets)), 0
	for i, p := range packets {
		end += len(p)
		ends[i] = C.uint32_t(end)
	}
	return func() uint32 {
		return uint32(C.kp_run_all(lib.filter, &insns[0], (*C.uchar)(unsafe.SliceData(data)), unsafe.SliceData(ends), C.int(len(ends))))
	}, nil
}

func (lib *library) load(prog bpf.Program, _ bpf.Kind) (execute, error) {
	insns, err := lib.validated(prog)
	if err != nil {
		return nil, err
	}
	return func(data []byte) (uint32, error) {
		return uint32(C.kp_run(lib.filter, &insns[0], (*C.uchar)(unsafe.SliceData(data)), C.uint(len(data)))), nil
	}, nil
}

// validated is the program as libpcap wants it, behind bpf_validate.
func (lib *library) validated(prog bpf.Program) ([]C.struct_kp_insn, error) {
	insns := make([]C.struct_kp_insn, len(prog))
	for pc, ins := range prog {
		insns[pc] = C.struct_kp_insn{code: C.uint16_t(ins.Code), jt: C.uint8_t(ins.JT), jf: C.uint8_t(ins.JF), k: C.uint32_t(ins.K)}
	}
	if C.kp_check(lib.validate, &insns[0], C.int(len(insns))) == 0 {
		return nil, errors.New("bpf_validate returns 0")
	}
	return insns, nil
}
