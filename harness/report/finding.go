package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/harness/campaign"
	"github.com/kjit-project/kjit/harness/judge"
	"github.com/kjit-project/kjit/harness/repro"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

// Finding is a divergence as the report tells it.
type Finding struct {
	ID        string // in the page
	Signature judge.Signature
	Source    string // that it is from
	Facts     []Fact
	Notes     []string
	Want, Got string
	How       string
	Program   []Instruction
	MoreInsns int // instructions that are left out
	Input     Input
	State     string // registers where they part, and the code there
	Listing   []Pair
	MorePairs int
	Plain     string   // a listing that is none of ours
	Rerun     []string // commands
	Trust     string   // the program that the command starts, "" for none
	Archive   string   // the file to run, where there is none
	Again     int      // how often the same was found besides, on other inputs or in other files

	insns int
	key   string
}

// Fact is a line of a list of terms.
type Fact struct{ Name, Text string }

// Instruction is one of a program.
type Instruction struct {
	Text  string
	Parts bool // here both sides part
}

// Input is what the program ran on.
type Input struct {
	Noun   string // "packet", "system call"
	Size   string
	Facts  []Fact
	Dump   []Dump
	More   int // bytes that are left out
	Record string
}

// Dump is a row of a hex dump.
type Dump struct{ Offset, Hex, Text string }

// Size is the size of program and input in words.
func (f *Finding) Size() string {
	size := count(f.insns, "instruction")
	if f.Input.Size != "" {
		size += ", " + f.Input.Size
	}
	return size
}

// partsAt finds the instruction in the sentence that says where both sides part,
// see [harness.Place.Story]; -1 if there is none.
func partsAt(how string) int {
	rest, ok := strings.CutPrefix(how, "at instruction ")
	pc, _, ends := strings.Cut(rest, ":")
	at, err := strconv.ParseUint(pc, 10, 31)
	if !ok || !ends || err != nil {
		return -1
	}
	return int(at)
}

// newFinding tells a repro. file is where it can be run from, "" if it is in no
// file of its own; profile is the kernel that its JIT was told to emit for.
func newFinding(r *repro.Repro, source, file, profile string) *Finding {
	f := &Finding{
		Signature: r.Signature(), Source: line(source), Want: hexed(line(r.Want)), Got: hexed(line(r.Got)), How: line(r.How),
		State: block(r.Place), insns: len(r.Program), Input: newInput(r.Input),
	}
	f.fact("JIT", r.JIT)
	f.fact("rule", r.Rule)
	f.fact("kind", kinds[r.Divergence])
	f.fact("program", fmt.Sprintf("%s filter, %s", r.Kind, count(len(r.Program), "instruction")))
	if r.Accesses {
		f.fact("checked", "memory accesses, too")
	}
	f.fact("found", r.Found)
	if r.Expect == repro.Agree {
		f.fact("expected", "mended: both sides agree")
	}
	for _, c := range r.Comments {
		if len(f.Notes) < 20 {
			f.Notes = append(f.Notes, line(c))
		}
	}
	at := partsAt(r.How)
	f.addProgram(r.Program, at)
	f.Listing, f.Plain = parseListing(r.Listing, at)
	f.Listing, f.MorePairs = around(f.Listing, func(p Pair) bool { return p.Parts })
	f.rerun(r, file, profile)
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\n%v", f.Signature, r.Program)
	f.key = strconv.FormatUint(h.Sum64(), 16)
	return f
}

// kinds are the ways to diverge, for people.
var kinds = map[judge.Kind]string{
	judge.Value: "another value", judge.Fault: "a fault", judge.Timeout: "no end", judge.Broken: "a broken promise to the caller",
	judge.Refusal: "a refusal", judge.Rejected: "checkers that do not agree", judge.Undefined: "another value behind a shift by X ≥ 32",
	judge.Failed: "no outcome",
}

func (f *Finding) fact(name, text string) {
	if text = line(text); text != "" {
		f.Facts = append(f.Facts, Fact{name, text})
	}
}

func (f *Finding) addProgram(prog bpf.Program, at int) {
	for pc, ins := range prog {
		text := strings.ReplaceAll(strings.TrimRight(bpftext.FormatInstruction(pc, ins), " "), "\t", "  ")
		f.Program = append(f.Program, Instruction{text, pc == at})
	}
	f.Program, f.MoreInsns = around(f.Program, func(i Instruction) bool { return i.Parts })
}

// pluginPrefix in front of a command is a JIT of its user's.
const pluginPrefix = "exec:"

// rerun says how the finding is run again. A command that is a JIT has to be
// named: kjit starts none because a file says so.
func (f *Finding) rerun(r *repro.Repro, file, profile string) {
	if file == "" {
		file = r.Name()
		if data, err := r.Format(); err == nil && len(data) <= 4*maxBlock {
			f.Archive = strings.ToValidUTF8(string(data), "\uFFFD")
		}
	}
	again := "kjit replay " + quoted(filepath.ToSlash(file))
	if command, ok := strings.CutPrefix(r.JIT, pluginPrefix); ok {
		f.Trust = line(command)
		// A comma would separate JITs.
		again += " --jit " + quoted(pluginPrefix+strings.ReplaceAll(command, ",", `\,`))
		if profile != "" {
			again += " --profile " + quoted(profile)
		}
	}
	f.Rerun = append(f.Rerun, again)
}

// around bounds the rows of a listing: those in front of and behind the first
// that is marked are kept.
func around[T any](rows []T, marked func(T) bool) (kept []T, more int) {
	if len(rows) <= maxListing {
		return rows, 0
	}
	from := 0
	for i := range rows {
		if marked(rows[i]) {
			from = min(max(0, i-maxListing/2), len(rows)-maxListing)
			break
		}
	}
	return rows[from : from+maxListing], len(rows) - maxListing
}

// newInput describes a packet or a system call.
func newInput(input kernelabi.Input) Input {
	var in Input
	if record, err := json.Marshal(input); err == nil {
		in.Record = cut(string(record), maxBlock)
	}
	switch i := input.(type) {
	case *kernelabi.Skb:
		in.Noun, in.Size = "packet", count(len(i.Packet), "byte")
		if i.Headlen != len(i.Packet) {
			in.Facts = append(in.Facts, Fact{"linear part", count(i.Headlen, "byte")})
		}
		in.Dump, in.More = dump(i.Packet)
	case *kernelabi.Syscall:
		in.Noun, in.Size = "system call", "a system call"
		in.Facts = []Fact{
			{"nr", strconv.FormatUint(uint64(i.Nr), 10)}, {"arch", fmt.Sprintf("%#x", i.Arch)}, {"instruction_pointer", fmt.Sprintf("%#x", i.IP)},
		}
		if abi := seccompdata.ABIOf(i.Arch, i.Nr); abi != nil {
			in.Facts = append(in.Facts, Fact{"that is", abi.Name + ": " + abi.Label(i.Nr)})
		}
		for n, arg := range i.Args {
			in.Facts = append(in.Facts, Fact{fmt.Sprintf("args[%d]", n), fmt.Sprintf("%#x", arg)})
		}
		in.Dump, _ = dump(i.Data.Append(nil))
	}
	return in
}

func dump(data []byte) (rows []Dump, more int) {
	if len(data) > maxInput {
		data, more = data[:maxInput], len(data)-maxInput
	}
	for at := 0; at < len(data); at += 16 {
		row := data[at:min(at+16, len(data))]
		text := bytes.Clone(row)
		for i, b := range text {
			if b < 0x20 || b > 0x7e {
				text[i] = '.'
			}
		}
		rows = append(rows, Dump{fmt.Sprintf("%04x", at), fmt.Sprintf("% x", row), string(text)})
	}
	return rows, more
}

// campaignFinding tells a finding whose file is not there yet.
func campaignFinding(f *campaign.Finding, seed uint64, source, profile string) *Finding {
	return newFinding(&repro.Repro{
		JIT: f.Target, Kind: f.Kind, Expect: repro.Diverge, Divergence: f.How, Rule: f.Rule, Want: f.Want, Got: f.Got,
		Found: fmt.Sprintf("kjit fuzz, seed %d, case %d", seed, f.Case), Program: f.Program, Input: f.Input,
	}, source, "", profile)
}
