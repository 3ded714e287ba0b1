package repro

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/harness/judge"
	"github.com/kjit-project/kjit/kernelabi"
)

// maxFile bounds a file: a program of 4096 instructions with its listing has
// less than a tenth of it.
const maxFile = 16 << 20

// The files of the archive.
const (
	programFile = "program"
	inputFile   = "input.json"
	imageFile   = "image.json"
	placeFile   = "place.txt"
	listingFile = "listing.txt"
)

// Error is a file that is no repro.
type Error struct {
	File   string
	Line   int    // of the head, from 1; 0 when no line is to blame
	Reason string // what is wrong, and what was expected
}

func (e *Error) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason)
	}
	return e.File + ": " + e.Reason
}

// field is a line of the head.
type field struct {
	key string
	get func(r *Repro) string
	set func(r *Repro, value string) error
}

// text is a field that may hold anything.
func text(key string, at func(r *Repro) *string) field {
	return field{key,
		func(r *Repro) string { return oneLine(*at(r)) },
		func(r *Repro, value string) error { *at(r) = value; return nil },
	}
}

// fields are all lines of the head, in the order in which they are written.
var fields = []field{
	text("jit", func(r *Repro) *string { return &r.JIT }),
	{"kind", func(r *Repro) string { return r.Kind.String() }, func(r *Repro, v string) error { return r.Kind.UnmarshalText([]byte(v)) }},
	{"expect", func(r *Repro) string { return string(r.Expect) }, func(r *Repro, v string) error {
		return oneOf(&r.Expect, v, Diverge, Agree)
	}},
	{"divergence", func(r *Repro) string { return string(r.Divergence) }, func(r *Repro, v string) error {
		return oneOf(&r.Divergence, v, judge.Kinds()...)
	}},
	text("rule", func(r *Repro) *string { return &r.Rule }),
	{"accesses", func(r *Repro) string {
		if r.Accesses {
			return "checked"
		}
		return ""
	}, func(r *Repro, v string) error {
		r.Accesses = v == "checked"
		var none string
		return oneOf(&none, v, "checked")
	}},
	text("want", func(r *Repro) *string { return &r.Want }),
	text("got", func(r *Repro) *string { return &r.Got }),
	text("how", func(r *Repro) *string { return &r.How }),
	text("found", func(r *Repro) *string { return &r.Found }),
}

// oneOf sets a value that must be one of some.
func oneOf[T ~string](at *T, value string, all ...T) error {
	if *at = T(value); !slices.Contains(all, *at) {
		return fmt.Errorf("%.40q: want one of %v", value, all)
	}
	return nil
}

// Format writes r as a file's content.
func (r *Repro) Format() ([]byte, error) {
	var head bytes.Buffer
	for _, c := range r.Comments {
		fmt.Fprintf(&head, "# %s\n", oneLine(c))
	}
	for _, f := range fields {
		if value := f.get(r); value != "" {
			fmt.Fprintf(&head, "%s: %s\n", f.key, value)
		}
	}
	program, err := programText(r.Program)
	if err != nil {
		return nil, err
	}
	input, err := json.Marshal(r.Input)
	if err != nil {
		return nil, err
	}
	a := &archive{head.Bytes(), []archived{{programFile, program}, {inputFile, input}}}
	if r.Image != nil {
		image, err := json.Marshal(r.Image)
		if err != nil {
			return nil, err
		}
		a.files = append(a.files, archived{imageFile, image})
	}
	for _, f := range []struct{ name, text string }{{placeFile, r.Place}, {listingFile, r.Listing}} {
		if f.text != "" {
			a.files = append(a.files, archived{f.name, []byte(f.text)})
		}
	}
	return a.format(), nil
}

// programText is bpf_asm source where that says all, and else JSON.
func programText(prog bpf.Program) ([]byte, error) {
	if source, err := bpftext.Format(bpftext.Asm, prog); err == nil {
		if again, err := bpftext.Parse(programFile, source); err == nil && slices.Equal(again.Program, prog) {
			return source, nil
		}
	}
	return bpftext.Format(bpftext.JSON, prog)
}

// Parse reads a file's content; name stands for it in errors, which are all of
// type *Error.
func Parse(name string, data []byte) (*Repro, error) {
	bad := func(line int, format string, args ...any) (*Repro, error) {
		return nil, &Error{name, line, fmt.Sprintf(format, args...)}
	}
	if len(data) > maxFile {
		return bad(0, "more than %d MiB", maxFile>>20)
	}
	a := parseArchive(data)
	r := &Repro{Expect: Diverge}
	if line, err := r.head(a.head); err != nil {
		return bad(line, "%v", err)
	}
	files := map[string][]byte{}
	for _, f := range a.files {
		if _, twice := files[f.name]; twice {
			return bad(0, "%s is there twice", f.name)
		}
		files[f.name] = f.data
	}
	for _, needed := range []string{programFile, inputFile} {
		if files[needed] == nil {
			return bad(0, "no file %s in it: want an archive with -- %s -- and -- %s --", needed, programFile, inputFile)
		}
	}
	switch {
	case r.JIT == "":
		return bad(0, "no line jit: it says what to run")
	case r.Divergence == "" && r.Expect == Diverge:
		return bad(0, "no line divergence: it says what to expect (%v), unless it is expect: agree", judge.Kinds())
	case strings.HasPrefix(r.JIT, ImagePrefix) != (files[imageFile] != nil):
		return bad(0, "%s belongs to a jit %sPROFILE, and to no other", imageFile, ImagePrefix)
	}
	listing, err := bpftext.Parse(programFile, files[programFile])
	if err != nil {
		return bad(0, "%v", err)
	}
	r.Program = listing.Program
	if r.Kind == bpf.Seccomp {
		r.Input = new(kernelabi.Syscall)
	} else {
		r.Input = new(kernelabi.Skb)
	}
	if err := json.Unmarshal(files[inputFile], r.Input); err != nil {
		return bad(0, "%s: %v", inputFile, err)
	}
	if data := files[imageFile]; data != nil {
		r.Image = new(kernelabi.JITRecord)
		if err := json.Unmarshal(data, r.Image); err != nil {
			return bad(0, "%s: %v", imageFile, err)
		}
		if r.Image.Image == nil || r.Image.Base == nil {
			return bad(0, "%s: a record without image or base", imageFile)
		}
	}
	r.Place, r.Listing = string(files[placeFile]), string(files[listingFile])
	return r, nil
}

// head reads the lines in front. On an error line is the one to blame.
func (r *Repro) head(head []byte) (line int, err error) {
	seen := map[string]bool{}
	for text := range strings.Lines(string(head)) {
		line++
		text = strings.TrimSpace(text)
		if comment, ok := strings.CutPrefix(text, "#"); ok {
			r.Comments = append(r.Comments, oneLine(comment))
			continue
		}
		if text == "" {
			continue
		}
		key, value, ok := strings.Cut(text, ":")
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
		switch {
		case !ok || i < 0:
			return line, fmt.Errorf("%.40q: want a line %s", text, keys())
		case seen[key]:
			return line, fmt.Errorf("a second line %s", key)
		}
		seen[key] = true
		if err := fields[i].set(r, oneLine(value)); err != nil {
			return line, fmt.Errorf("%s: %w", key, err)
		}
	}
	return 0, nil
}

// keys lists the keys of the head.
func keys() string {
	var all []string
	for _, f := range fields {
		all = append(all, f.key+":")
	}
	return strings.Join(all, " ")
}

// Read reads a file. Errors are of type *Error, or of the file system.
func Read(path string) (*Repro, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// unfinished are the names of files that [Write] has not finished.
const unfinished = ".repro-*"

// Sweep removes from a folder what [Write] left there when its process was
// killed. Nobody else may write into the folder meanwhile.
func Sweep(dir string) error {
	// Not filepath.Glob: the folder's name may look like a pattern.
	names, err := fs.Glob(os.DirFS(dir), unfinished)
	for _, name := range names {
		err = errors.Join(err, os.Remove(filepath.Join(dir, name)))
	}
	return err
}

// Write writes r into a folder, under its Name, and returns the path. The file
// is whole or not there, whenever the process ends; one of that name is
// replaced.
func Write(dir string, r *Repro) (path string, err error) {
	data, err := r.Format()
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp(dir, unfinished)
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, r.Name())
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return "", err
	}
	return path, nil
}
