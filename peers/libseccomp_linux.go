package peers

// #include <stdint.h>
// #include <stdlib.h>
//
// // struct scmp_arg_cmp and struct scmp_version (seccomp.h).
// struct ks_compare { unsigned arg; int op; uint64_t a, b; };
// struct ks_version { unsigned major, minor, micro; };
//
// typedef void *ks_init(uint32_t);
// typedef void ks_release(void *);
// typedef int ks_arch(void *, uint32_t);
// typedef int ks_attribute(void *, int, uint32_t);
// typedef int ks_resolve(const char *);
// typedef int ks_rule(void *, uint32_t, int, unsigned, const struct ks_compare *);
// typedef int ks_export(void *, int);
// typedef const struct ks_version *ks_about(void);
//
// static void *ks_call_init(void *f, uint32_t action) { return ((ks_init *)f)(action); }
// static void ks_call_release(void *f, void *c) { ((ks_release *)f)(c); }
// static int ks_call_arch(void *f, void *c, uint32_t arch) { return ((ks_arch *)f)(c, arch); }
// static int ks_call_attribute(void *f, void *c, int which, uint32_t v) { return ((ks_attribute *)f)(c, which, v); }
// static int ks_call_resolve(void *f, const char *name) { return ((ks_resolve *)f)(name); }
// static int ks_call_rule(void *f, void *c, uint32_t action, int nr, unsigned n, const struct ks_compare *cmp) {
// 	return ((ks_rule *)f)(c, action, nr, n, cmp);
// }
// static int ks_call_export(void *f, void *c, int fd) { return ((ks_export *)f)(c, fd); }
// static struct ks_version ks_call_version(void *f) { return *((ks_about *)f)(); }
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/seccompdata"
)

// Libseccomp makes seccomp filters with the libseccomp that is installed.
type Libseccomp struct {
	Version string // "2.5.4"

	init, release, archAdd, archRemove, attribute, resolve, rule, export unsafe.Pointer
}

// NewLibseccomp opens the library; its error says that there is none.
var NewLibseccomp = sync.OnceValues(func() (*Libseccomp, error) {
	var l Libseccomp
	var version unsafe.Pointer
	found, err := openShared([]string{"libseccomp.so.2", "libseccomp.so"}, []symbol{
		{"seccomp_init", &l.init}, {"seccomp_release", &l.release},
		{"seccomp_arch_add", &l.archAdd}, {"seccomp_arch_remove", &l.archRemove},
		{"seccomp_attr_set", &l.attribute}, {"seccomp_syscall_resolve_name", &l.resolve},
		{"seccomp_rule_add_array", &l.rule}, {"seccomp_export_bpf", &l.export}, {"seccomp_version", &version},
	})
	switch {
	case !found:
		return nil, errors.New("libseccomp is not installed (looked for libseccomp.so.2): install libseccomp2 or libseccomp")
	case err != nil:
		return nil, err
	}
	v := C.ks_call_version(version)
	l.Version = fmt.Sprintf("%d.%d.%d", v.major, v.minor, v.micro)
	return &l, nil
})

// libseccompArch are the tokens of architectures (seccomp.h): AUDIT_ARCH_*, but
// for x32.
var libseccompArch = map[*seccompdata.ABI]C.uint32_t{
	seccompdata.X86_64: seccompdata.ArchX86_64, seccompdata.X32: seccompdata.ArchX86_64 &^ (1 << 31),
	seccompdata.I386: seccompdata.ArchI386, seccompdata.ARM: seccompdata.ArchARM, seccompdata.AARCH64: seccompdata.ArchAARCH64,
}

// libseccompOps are those of enum scmp_compare.
var libseccompOps = map[specs.LinuxSeccompOperator]C.int{
	specs.OpNotEqual: 1, specs.OpLessThan: 2, specs.OpLessEqual: 3, specs.OpEqualTo: 4,
	specs.OpGreaterEqual: 5, specs.OpGreaterThan: 6, specs.OpMaskedEqual: 7,
}

// Filter makes a filter of a profile as runc does it: it leaves out rules with
// the default action and for names that the library does not know, which it
// returns, and makes several rules of one that has several conditions on one
// argument. optimize is SCMP_FLTATR_CTL_OPTIMIZE, 1 or 2. Actions are those of
// returns.
func (l *Libseccomp) Filter(profile *specs.LinuxSeccomp, abis []*seccompdata.ABI, optimize int, returns func(specs.LinuxSeccompAction, *uint) uint32) (prog bpf.Program, unknown []string, err error) {
	otherwise := returns(profile.DefaultAction, profile.DefaultErrnoRet)
	c := C.ks_call_init(l.init, C.uint32_t(otherwise))
	if c == nil {
		return nil, nil, fmt.Errorf("seccomp_init refuses the default action %#x", otherwise)
	}
	defer C.ks_call_release(l.release, c)
	if err := l.architectures(c, abis); err != nil {
		return nil, nil, err
	}
	const optimizeAttribute = 8 // SCMP_FLTATR_CTL_OPTIMIZE
	if rc := C.ks_call_attribute(l.attribute, c, optimizeAttribute, C.uint32_t(optimize)); rc != 0 {
		return nil, nil, fmt.Errorf("seccomp_attr_set: %w", errnoOf(rc))
	}
	for i, rule := range profile.Syscalls {
		ret := returns(rule.Action, rule.ErrnoRet)
		if ret == otherwise {
			continue
		}
		for _, name := range rule.Names {
			text := C.CString(name)
			nr := C.ks_call_resolve(l.resolve, text)
			C.free(unsafe.Pointer(text))
			if nr == -1 { // __NR_SCMP_ERROR
				unknown = append(unknown, name)
				continue
			}
			for _, alternative := range asRunc(rule.Args) {
				if err := l.add(c, ret, nr, alternative); err != nil {
					return nil, nil, fmt.Errorf("syscalls[%d], %s: seccomp_rule_add_array: %w", i, name, err)
				}
			}
		}
	}
	prog, err = l.program(c)
	return prog, unknown, err
}

// architectures replaces the native one by those wanted.
func (l *Libseccomp) architectures(c unsafe.Pointer, abis []*seccompdata.ABI) error {
	if rc := C.ks_call_arch(l.archRemove, c, 0); rc != 0 { // SCMP_ARCH_NATIVE
		return fmt.Errorf("seccomp_arch_remove: %w", errnoOf(rc))
	}
	for _, abi := range abis {
		if rc := C.ks_call_arch(l.archAdd, c, libseccompArch[abi]); rc != 0 {
			return fmt.Errorf("seccomp_arch_add of %s: %w", abi, errnoOf(rc))
		}
	}
	return nil
}

// asRunc returns lists of conditions, each for a rule of its own.
func asRunc(args []specs.LinuxSeccompArg) [][]specs.LinuxSeccompArg {
	seen := map[uint]bool{}
	for _, arg := range args {
		if seen[arg.Index] {
			var each [][]specs.LinuxSeccompArg
			for i := range args {
				each = append(each, args[i:i+1])
			}
			return each
		}
		seen[arg.Index] = true
	}
	return [][]specs.LinuxSeccompArg{args}
}

func (l *Libseccomp) add(c unsafe.Pointer, ret uint32, nr C.int, args []specs.LinuxSeccompArg) error {
	compare := make([]C.struct_ks_compare, max(1, len(args)))
	for i, arg := range args {
		compare[i] = C.struct_ks_compare{C.unsigned(arg.Index), libseccompOps[arg.Op], C.uint64_t(arg.Value), C.uint64_t(arg.ValueTwo)}
	}
	if rc := C.ks_call_rule(l.rule, c, C.uint32_t(ret), nr, C.unsigned(len(args)), &compare[0]); rc != 0 {
		return errnoOf(rc)
	}
	return nil
}

// program reads the filter back through a pipe.
func (l *Libseccomp) program(c unsafe.Pointer) (bpf.Program, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	exported := make(chan C.int)
	go func() {
		defer w.Close()
		exported <- C.ks_call_export(l.export, c, C.int(w.Fd()))
	}()
	raw := make(chan []byte, 1)
	go func() {
		data, _ := io.ReadAll(r)
		raw <- data
	}()
	if rc := <-exported; rc != 0 {
		return nil, fmt.Errorf("seccomp_export_bpf: %w", errnoOf(rc))
	}
	var prog bpf.Program
	for data := <-raw; len(data) >= 8; data = data[8:] {
		prog = append(prog, bpf.Instruction{
			Code: binary.NativeEndian.Uint16(data), JT: data[2], JF: data[3], K: binary.NativeEndian.Uint32(data[4:]),
		})
	}
	return prog, nil
}

// errnoOf is the error that libseccomp returns as a negative number.
func errnoOf(rc C.int) error { return syscall.Errno(-rc) }
