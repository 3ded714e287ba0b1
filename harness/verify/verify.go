// Package verify checks recorded facts: it recognises what kind of fact a JSON
// record states, works out the same thing with kjit, and compares.
package verify

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kjit-project/kjit/seccompdata"
)

// Result is the judgement of one check. Most records are one check; a mutant
// for any architecture is one per architecture.
type Result struct {
	File string
	Line int
	Kind string
	Name string // of the record

	Err  error  // the difference; nil if it holds
	Skip string // why it was not checked
}

// Bad is a line that is no record at all.
type Bad struct {
	File   string
	Line   int
	Reason string
}

func (b *Bad) Error() string { return fmt.Sprintf("%s:%d: %s", b.File, b.Line, b.Reason) }

// skipped is the error a check returns for what this version cannot check.
type skipped string

func (s skipped) Error() string { return string(s) }

// kind is one sort of record.
type kind struct {
	name  string
	has   []string // the fields by which it is recognised
	needs []string // the others that it must have
	// check reports one error per check of the record, nil for one that holds.
	check func(c *Checker, data []byte) []error
	// label names a record that has no name of its own.
	label func(data []byte) string
}

// Checker checks records. It keeps emulated machines between records, so it
// belongs to one goroutine; Close frees them.
type Checker struct {
	JITs []string // profiles: if not empty, what others give is skipped

	only     []string
	dir      string                         // of the file being checked
	filters  map[string]*seccompdata.Filter // by name, of the file's folder
	machines machines
}

// NewChecker returns a checker of the named kinds of records, of all if none
// is named.
func NewChecker(kinds ...string) (*Checker, error) {
	for _, k := range kinds {
		if !slices.Contains(Kinds(), k) {
			return nil, fmt.Errorf("no kind of record %q: there are %s", k, strings.Join(Kinds(), ", "))
		}
	}
	return &Checker{only: kinds}, nil
}

// wants reports whether what the profile gives is to be checked.
func (c *Checker) wants(profile string) bool {
	return len(c.JITs) == 0 || slices.Contains(c.JITs, profile)
}

const notAmongJITs = skipped("of a JIT that is not among those asked for")

// Close frees the machines.
func (c *Checker) Close() { c.machines.close() }

// Kinds lists the kinds of records.
func Kinds() []string {
	var names []string
	for _, k := range kinds {
		// One kind may be recognised in several ways.
		if !slices.Contains(names, k.name) {
			names = append(names, k.name)
		}
	}
	return names
}

// maxLine bounds one record: the longest known, a 4096-instruction program
// with its image, has about 200 kB.
const maxLine = 16 << 20

// File checks every record of a JSON Lines stream. Lines that are no record
// are returned, joined, as *Bad errors after all others have been checked.
func (c *Checker) File(name string, r io.Reader, each func(Result) error) error {
	c.dir, c.filters = filepath.Dir(name), nil
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 1<<16), maxLine)
	var bad []error
	n := 0
	for lines.Scan() {
		n++
		data := bytes.TrimSpace(lines.Bytes())
		if len(data) == 0 {
			continue
		}
		results, err := c.record(data)
		if err != nil {
			bad = append(bad, &Bad{name, n, err.Error()})
			continue
		}
		for _, res := range results {
			res.File, res.Line = name, n
			if err := each(res); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = &Bad{name, n + 1, fmt.Sprintf("a line of more than %d MiB", maxLine>>20)}
		}
		bad = append(bad, err)
	}
	return errors.Join(bad...)
}

// record checks one record.
func (c *Checker) record(data []byte) ([]Result, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	k := recognise(fields)
	if k == nil {
		return nil, fmt.Errorf("not a record of a known kind (%s)", strings.Join(Kinds(), ", "))
	}
	if len(c.only) > 0 && !slices.Contains(c.only, k.name) {
		return nil, nil
	}
	// A field that is left out would be taken for 0, which may be the right
	// value by accident.
	for _, field := range slices.Concat(k.has, k.needs) {
		if value, ok := fields[field]; !ok || !slices.Contains(nullable, field) && string(value) == "null" {
			return nil, fmt.Errorf("a %s record without %s", k.name, field)
		}
	}
	var name string
	if json.Unmarshal(fields["name"], &name) != nil && k.label != nil {
		name = k.label(data)
	}
	var results []Result
	for _, err := range k.check(c, data) {
		res := Result{Kind: k.name, Name: name, Err: err}
		var skip skipped
		var invalid *invalidRecord
		switch {
		case errors.As(err, &skip):
			res.Err, res.Skip = nil, string(skip)
		case errors.As(err, &invalid):
			return nil, invalid
		}
		results = append(results, res)
	}
	return results, nil
}

// recognise finds the first kind all of whose fields are there.
func recognise(fields map[string]json.RawMessage) *kind {
	for i := range kinds {
		if !slices.ContainsFunc(kinds[i].has, func(f string) bool { _, ok := fields[f]; return !ok }) {
			return &kinds[i]
		}
	}
	return nil
}

// invalidRecord is a record of a known kind whose fields make no sense.
type invalidRecord struct{ error }

func (e *invalidRecord) Unwrap() error { return e.error }

// nullable are the fields whose null says something.
var nullable = []string{"image", "base"}

// one makes a kind's check of a typed record and a function that checks it.
func one[T any](check func(*Checker, *T) error) func(*Checker, []byte) []error {
	return many(func(c *Checker, rec *T) []error { return []error{check(c, rec)} })
}

func many[T any](check func(*Checker, *T) []error) func(*Checker, []byte) []error {
	return func(c *Checker, data []byte) []error {
		rec := new(T)
		if err := json.Unmarshal(data, rec); err != nil {
			return []error{&invalidRecord{err}}
		}
		return check(c, rec)
	}
}
