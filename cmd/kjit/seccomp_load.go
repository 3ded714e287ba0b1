package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/harness/livekernel"
	"github.com/kjit-project/kjit/seccompdata"
)

// seccompFilter is a filter as a command got it.
type seccompFilter struct {
	*seccompdata.Filter
	Source   string           // where it is from, for people
	Listing  *bpftext.Listing // the text; nil for compiled and captured filters
	Compiled *compiledProfile // what it was compiled from; nil for programs
}

// pidPrefix names a live process where a filter is asked for: "pid:812".
const pidPrefix = "pid:"

// filterForms says in help texts what loadFilters takes.
const filterForms = "a program file in any form, -, corpus:NAME, records with programs, a profile (OCI or Docker JSON; docker-default is one), or pid:N"

// loadFilters finds the filters that arg names, in the order in which they were
// installed: "-" is standard input, "corpus:NAME" a program that comes with
// kjit, "pid:N" the filters of a process, and the rest a file: a program in any
// form, JSON records with a program each (as kjit capture --programs --json
// prints them), or a profile, which is compiled as the flags say.
func loadFilters(ctx context.Context, arg string, flags *profileFlags, std streams) ([]*seccompFilter, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if pid, ok := strings.CutPrefix(arg, pidPrefix); ok {
		return processFilters(pid)
	}
	if name, ok := strings.CutPrefix(arg, corpusPrefix); ok {
		prog, err := corpusProgram(name)
		if err != nil {
			return nil, err
		}
		return oneFilter(arg, arg, prog.Listing, prog.Program)
	}
	data, name, err := readFilterFile(arg, flags, std.in)
	if err != nil {
		return nil, err
	}
	return parseFilters(name, data, flags)
}

// loadChain loads all args, one behind the other.
func loadChain(ctx context.Context, args []string, flags *profileFlags, std streams) ([]*seccompFilter, error) {
	var all []*seccompFilter
	for _, arg := range args {
		filters, err := loadFilters(ctx, arg, flags, std)
		if err != nil {
			return nil, err
		}
		all = append(all, filters...)
	}
	if len(all) == 0 {
		return nil, badInput(errors.New("no filter: name " + filterForms))
	}
	return all, nil
}

// readFilterFile reads a file, or standard input.
func readFilterFile(arg string, flags *profileFlags, stdin io.Reader) (data []byte, name string, err error) {
	// Editors on Windows begin a text with a mark.
	defer func() { data = bytes.TrimPrefix(data, []byte("\ufeff")) }()
	if arg == "-" {
		data, err = readAll("standard input", stdin, maxText)
		return data, "standard input", err
	}
	f, err := os.Open(arg)
	if err != nil {
		if data, ok := flags.builtin(arg); ok {
			return data, arg, nil
		}
		return nil, "", badInput(fmt.Errorf("%w (a filter is %s)", err, filterForms))
	}
	defer f.Close()
	data, err = readAll(arg, f, maxText)
	return data, arg, err
}

// parseFilters reads a file of any kind that may hold filters.
func parseFilters(name string, data []byte, flags *profileFlags) ([]*seccompFilter, error) {
	var object map[string]json.RawMessage
	switch err := json.NewDecoder(bytes.NewReader(data)).Decode(&object); {
	case err == nil && (object["program"] != nil || object["insns"] != nil):
		return recordFilters(name, data)
	case err == nil:
		return flags.compile(name, data)
	}
	l, err := bpftext.Parse(name, data)
	if err != nil && looksJSON(data) {
		return flags.compile(name, data) // for its error, which says where the JSON breaks
	}
	if err != nil {
		return nil, err
	}
	return oneFilter(name, name, l, l.Program)
}

// looksJSON reports whether a text begins as a JSON object does, with a key.
func looksJSON(data []byte) bool {
	inside, ok := bytes.CutPrefix(bytes.TrimSpace(data), []byte("{"))
	return ok && bytes.HasPrefix(bytes.TrimSpace(inside), []byte(`"`))
}

// oneFilter checks a program and makes it a filter.
func oneFilter(name, source string, l *bpftext.Listing, prog bpf.Program) ([]*seccompFilter, error) {
	f, err := seccompdata.NewFilter(name, prog)
	if err != nil {
		return nil, fmt.Errorf("%s: no seccomp filter: %w", source, err)
	}
	return []*seccompFilter{{Filter: f, Source: source, Listing: l}}, nil
}

// recordFilters reads JSON objects that have a program each.
func recordFilters(name string, data []byte) ([]*seccompFilter, error) {
	var all []*seccompFilter
	for dec := json.NewDecoder(bytes.NewReader(data)); ; {
		var rec struct {
			Name    string      `json:"name"`
			Holder  string      `json:"holder"`
			Program bpf.Program `json:"program"`
			Insns   bpf.Program `json:"insns"`
		}
		err := dec.Decode(&rec)
		if err == io.EOF {
			return all, nil
		}
		where := fmt.Sprintf("%s: record %d", name, len(all)+1)
		if err != nil {
			return nil, badInput(fmt.Errorf("%s: %w", where, err))
		}
		if rec.Program == nil {
			rec.Program = rec.Insns
		}
		if rec.Name == "" {
			rec.Name = where
		}
		filters, err := oneFilter(rec.Name, where, nil, rec.Program)
		if err != nil {
			return nil, err
		}
		all = append(all, filters...)
	}
}

// processFilters are those of a process that is running.
func processFilters(pid string) ([]*seccompFilter, error) {
	n, err := strconv.Atoi(pid)
	if err != nil || n <= 0 {
		return nil, badInput(fmt.Errorf("%s%s: want the number of a process", pidPrefix, pid))
	}
	found, err := livekernel.ProcessFilters(n)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, badInput(fmt.Errorf("%s%d: there is no such process", pidPrefix, n))
	}
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, badInput(fmt.Errorf("process %d has no seccomp filter", n))
	}
	var all []*seccompFilter
	for _, f := range found {
		filters, err := oneFilter(f.Name, f.Holder, nil, f.Program)
		if err != nil {
			return nil, err
		}
		all = append(all, filters...)
	}
	return all, nil
}
