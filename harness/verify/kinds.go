package verify

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
)

// kinds are the records that are recognised. Of two kinds whose fields a record
// has, the first is meant, so that kinds with more fields stand before those
// with fewer.
var kinds = []kind{
	{name: "jit-mutants", has: []string{"mutant", "measured", "program"}, needs: []string{"name", "type", "arch", "packet", "want"}, check: many(checkMutant)},
	{name: "jit-goldens", has: []string{"kernel", "arch", "program", "image", "result"}, check: one(checkGolden)},
	{name: "kernel-images", has: []string{"kernel", "program", "inputs", "results"}, check: one(checkKernelImage)},
	{name: "kernel-images", has: []string{"kernel", "program", "errno"}, check: one(checkKernelImage)},
	{name: "text-bpf-image", has: []string{"code", "k", "n", "text"}, needs: []string{"jt", "jf"}, check: one(textRecord[bpftext.ImageRecord]), label: labelImage},
	{name: "text-bpf-asm", has: []string{"rc", "src"}, check: one(textRecord[bpftext.AsmRecord]), label: labelField("src")},
	{name: "text-bpf-asm", has: []string{"rc", "src_line"}, check: one(textRecord[bpftext.AsmRecord]), label: labelField("src_line")},
	{name: "text-tcpdump", has: []string{"expr", "d", "ddd"}, check: one(textRecord[bpftext.TcpdumpRecord]), label: labelField("expr")},
	{name: "text-tcpdump", has: []string{"expression", "d", "ddd"}, check: one(textRecord[bpftext.ExpressionRecord])},
	{name: "text-xt-bpf", has: []string{"bytecode", "rc"}, check: one(textRecord[bpftext.XTRecord]), label: labelField("bytecode")},
	{name: "seccomp-checker", has: []string{"insns", "seccomp_errno", "socket_errno"}, check: one(checkChecker)},
	{name: "seccomp-checker", has: []string{"repeat", "seccomp_errno", "socket_errno"}, check: one(checkChecker)},
	{name: "seccomp-opcodes", has: []string{"code", "seccomp_errno", "socket_errno"}, check: one(checkOpcode), label: labelField("hex")},
	{name: "seccomp-runtime", has: []string{"insns", "nr", "args", "ret", "executed"}, check: one(checkRuntime)},
	{name: "seccomp-vectors", has: []string{"filter", "nr", "action", "ret"}, needs: []string{"arch", "executed", "pc", "data"}, check: one(checkVector), label: labelField("filter")},
	{name: "seccomp-constallow", has: []string{"filter", "cached"}, needs: []string{"arch", "nr_tested"}, check: one(checkConstAllow), label: labelField("filter")},
	{name: "seccomp-expansion", has: []string{"code", "converted"}, needs: []string{"jt", "jf", "k"}, check: one(checkExpansion), label: labelImage},
	{name: "seccomp-probes", has: []string{"filters", "outcome"}, needs: []string{"nr"}, check: one(checkProbe)},
	{name: "seccomp-profiles", has: []string{"converted_len", "max_stacked"}, needs: []string{"name", "insns", "opcodes", "crc32"}, check: one(checkProfile)},
}

// textRecord checks a record that says itself how it is checked.
func textRecord[T any, P interface {
	*T
	Check() error
}](_ *Checker, rec *T) error {
	return P(rec).Check()
}

// labelField names a record by one of its fields.
func labelField(field string) func([]byte) string {
	return func(data []byte) string {
		var fields map[string]any
		if json.Unmarshal(data, &fields) != nil {
			return ""
		}
		return strings.Trim(fmt.Sprintf("%.60q", fmt.Sprint(fields[field])), `"`)
	}
}

// labelImage names a one-instruction record by its instruction.
func labelImage(data []byte) string {
	var ins struct {
		Code   uint16
		JT, JF uint8
		K      uint32
	}
	if json.Unmarshal(data, &ins) != nil {
		return ""
	}
	return fmt.Sprintf("{%#x, %d, %d, %#x}", ins.Code, ins.JT, ins.JF, ins.K)
}

// checkerRecord is what a kernel said to a program that was to be attached.
type checkerRecord struct {
	Insns   bpf.Program      `json:"insns"`
	Repeat  *bpf.Instruction `json:"repeat"`
	Count   int              `json:"count"`
	Seccomp int              `json:"seccomp_errno"`
	Socket  int              `json:"socket_errno"`
}

func checkChecker(_ *Checker, rec *checkerRecord) error {
	prog := rec.Insns
	if rec.Repeat != nil {
		if rec.Count < 0 || rec.Count > 2*bpf.MaxInsns {
			return &invalidRecord{fmt.Errorf("count %d is out of range", rec.Count)}
		}
		for range rec.Count {
			prog = append(prog, *rec.Repeat)
		}
	}
	return checkErrnos(prog, rec.Socket, rec.Seccomp)
}

// opcodeRecord is the same for {st M[0]; the code; ret}.
type opcodeRecord struct {
	Code    uint16 `json:"code"`
	Seccomp int    `json:"seccomp_errno"`
	Socket  int    `json:"socket_errno"`
}

func checkOpcode(_ *Checker, rec *opcodeRecord) error {
	ins := bpf.Instruction{Code: rec.Code}
	if ins.Class() == bpf.ClassAlu {
		ins.K = 1
	}
	return checkErrnos(bpf.Program{{Code: bpf.St}, ins, {Code: bpf.RetK}}, rec.Socket, rec.Seccomp)
}

func checkErrnos(prog bpf.Program, socket, seccomp int) error {
	for _, want := range []struct {
		kind  bpf.Kind
		errno int
	}{{bpf.Socket, socket}, {bpf.Seccomp, seccomp}} {
		err := bpf.Check(prog, want.kind, bpf.RulesCurrent)
		if (err == nil) != (want.errno == 0) {
			return fmt.Errorf("as a %s filter the kernel gives errno %d, kjit %v", want.kind, want.errno, orAccepted(err))
		}
	}
	return nil
}

func orAccepted(err error) any {
	if err == nil {
		return "accepts it"
	}
	return fmt.Sprintf("refuses it (%v)", err)
}
