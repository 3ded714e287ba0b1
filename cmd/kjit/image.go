package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/kernelabi/btflayout"
	"github.com/kjit-project/kjit/kernelabi/imagefile"
)

// imageFlags name an image of a real kernel and what its file does not say.
type imageFlags struct {
	Image   string `placeholder:"FILE" help:"Image that a real kernel made of the program, to run beside: a kernel log (bpf_jit_enable=2), what bpftool prog dump jited writes (into a file, as JSON, or as text with opcodes), a record, hex or raw bytes."`
	Pick    string `placeholder:"NAME|N" help:"Which image of the file: a record or function by name, or the N-th (default: of a log the last, else the only one, or the one made of the program)."`
	Profile string `placeholder:"NAME" help:"Kernel that the image is for (default: what a record says), or that JITs exec:COMMAND emit for (default: what they say, or linux-3.10-x86_64)."`
	Symbols string `placeholder:"FILE|LIST" help:"Addresses of the kernel's functions: /proc/kallsyms, System.map, or NAME=ADDRESS,... (default: the record's, or the profile's)."`
	BTF     string `name:"btf" xor:"layout" placeholder:"FILE" help:"BTF of the image's kernel, for its struct layouts: /sys/kernel/btf/vmlinux, or a vmlinux with debug information (default: the profile's layout, or what the image shows)."`
	Layout  string `xor:"layout" placeholder:"FILE|LIST" help:"Struct layouts of the image's kernel in place of the profile's: JSON of offsets, {\"sk_buff.len\": 112, ...}, or of such an object for each kernel, or BTF; or FIELD=OFFSET,... to change single fields."`
	Base    string `placeholder:"ADDRESS" help:"Address of the image (hex; default: as the file says, or found from the calls)."`
}

// imagePrefix in place of a program takes the program, and without packets also
// the inputs, from the record of an image.
const imagePrefix = "image:"

// maxImageFile bounds a file of images: kernel logs may be long.
const maxImageFile = 256 << 20

// openedImages are the images of --image.
type openedImages struct {
	flags   *imageFlags
	entries []imagefile.Entry
	faults  error // of the file; not the end of it if the image is not concerned
}

// open reads the file, or returns nil if there is none. Then the profile must
// not be given either, unless it is that of a plugin.
func (f *imageFlags) open(stdin io.Reader, plugin bool) (*openedImages, error) {
	if f.Image == "" {
		for flag, value := range map[string]string{"--pick": f.Pick, "--profile": f.Profile, "--symbols": f.Symbols, "--btf": f.BTF, "--layout": f.Layout, "--base": f.Base} {
			if value != "" && !(plugin && flag == "--profile") {
				return nil, badInput(fmt.Errorf("%s is about an image: give one with --image", flag))
			}
		}
		return nil, nil
	}
	r, err := openInput(f.Image, stdin)
	if err != nil {
		return nil, badInput(err)
	}
	defer r.Close()
	data, err := readAll(f.Image, r, maxImageFile)
	if err != nil {
		return nil, err
	}
	entries, err := imagefile.Read(f.Image, data)
	if len(entries) == 0 {
		return nil, badInput(err)
	}
	return &openedImages{f, entries, err}, nil
}

// record returns the record whose program is to be run, for "image:NAME" or, with
// name "", for none.
func (o *openedImages) record(name string) (*kernelabi.KernelImageRecord, error) {
	switch {
	case o == nil && name == "":
		return nil, badInput(errors.New("no program: name a file, - for standard input, corpus:NAME, or a filter expression; or a record with --image"))
	case o == nil:
		return nil, badInput(fmt.Errorf("%s takes the program from a record: give its file with --image", imagePrefix))
	}
	if o.flags.Pick == "" {
		o.flags.Pick = name // its image too, unless another is asked for
	}
	e, err := o.pick(cmp.Or(name, o.flags.Pick), nil)
	if err != nil {
		return nil, err
	}
	if e.Record == nil {
		return nil, badInput(fmt.Errorf("%s: a %s has no program: name a program", e, e.Form))
	}
	if e.Code == nil {
		_, err := e.Image(imagefile.Placing{})
		return nil, badInput(err)
	}
	return e.Record, nil
}

// pick returns the image that which means; of several for "" the one made of
// prog, if that is known.
func (o *openedImages) pick(which string, prog bpf.Program) (*imagefile.Entry, error) {
	var fits []*imagefile.Entry
	for i := range o.entries {
		e := &o.entries[i]
		switch number, err := strconv.Atoi(which); {
		case which == "":
			if prog == nil || e.Record == nil || slices.Equal(e.Record.Program, prog) {
				fits = append(fits, e)
			}
		case e.Name == which, err == nil && number == e.Number:
			fits = append(fits, e)
		}
	}
	switch {
	case len(fits) == 1, len(fits) > 0 && fits[0].Form == imagefile.Log:
		return fits[len(fits)-1], nil
	case len(fits) == 0 && which != "":
		err := fmt.Errorf("%s: no image %q among %s: %s", o.flags.Image, which, plural(len(o.entries), "image"), o.names())
		return nil, badInput(errors.Join(err, o.faults))
	case len(fits) == 0:
		return nil, badInput(fmt.Errorf("%s: none of %s was made of this program: --pick takes one all the same: %s", o.flags.Image, plural(len(o.entries), "record"), o.names()))
	}
	hint := ""
	if fits[0].Record != nil {
		hint = " (kjit verify checks them all)"
	}
	return nil, badInput(fmt.Errorf("%s has %s: choose one with --pick: %s%s", o.flags.Image, plural(len(fits), "image"), o.names(), hint))
}

// names lists the first images.
func (o *openedImages) names() string {
	var names []string
	for i := range o.entries[:min(len(o.entries), 6)] {
		name := strconv.Itoa(o.entries[i].Number)
		if n := o.entries[i].Name; n != "" {
			name += " " + n
		}
		names = append(names, name)
	}
	if len(o.entries) > 6 {
		names = append(names, "...")
	}
	return strings.Join(names, ", ")
}

// runner places the image for the program and returns its runner, ready to run, with
// options for its machine.
func (o *openedImages) runner(prog bpf.Program, kind bpf.Kind, options ...emulator.Option) (*harness.Image, error) {
	e, err := o.pick(o.flags.Pick, prog)
	if err != nil {
		return nil, err
	}
	placing := imagefile.Placing{Program: prog, Kind: kind}
	if o.flags.Profile != "" {
		if placing.Profile, err = kernelabi.ProfileByName(o.flags.Profile); err != nil {
			return nil, badInput(fmt.Errorf("--profile: %w", err))
		}
	}
	if o.flags.Base != "" {
		base, err := parseAddress(o.flags.Base)
		if err != nil {
			return nil, badInput(fmt.Errorf("--base: %w", err))
		}
		placing.Base = &base
	}
	if placing.Symbols, err = loadSymbols(o.flags.Symbols); err != nil {
		return nil, err
	}
	if err := o.flags.layout(e, &placing); err != nil {
		return nil, err
	}
	img, err := e.Image(placing)
	if err != nil {
		var file *imagefile.Error
		if errors.As(err, &file) { // which says where already
			return nil, badInput(fmt.Errorf("%w (--profile: %s)", err, profileNames()))
		}
		return nil, badInput(fmt.Errorf("%s: %w%s", e, err, flagFor(err)))
	}
	runner, err := harness.NewImage("image:"+img.Profile.Name, img, options...)
	if err == nil {
		err = runner.Prepare()
	}
	if err != nil {
		return nil, badInput(fmt.Errorf("%s: %w", e, err))
	}
	return runner, nil
}

// layout reads the struct layouts that the flags name.
func (f *imageFlags) layout(e *imagefile.Entry, placing *imagefile.Placing) (err error) {
	if strings.Contains(f.Layout, "=") {
		placing.Fields, err = parseFields(f.Layout)
		return err
	}
	flag, file := "--btf", f.BTF
	if f.Layout != "" {
		flag, file = "--layout", f.Layout
	}
	if file == "" {
		return nil
	}
	data, err := readWhole(file, maxImageFile)
	if err != nil {
		return err
	}
	if flag == "--layout" && bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		profile, kernel := placing.Profile, ""
		if e.Record != nil {
			kernel = e.Record.Kernel
		}
		placing.Layout, err = kernelabi.ParseLayout(file, data, profile, kernel)
	} else {
		placing.Layout, err = btflayout.Read(file, data)
	}
	if err != nil {
		return badInput(fmt.Errorf("%s: %w", flag, err))
	}
	return nil
}

// parseFields reads FIELD=OFFSET,...
func parseFields(list string) (map[string]int, error) {
	fields := map[string]int{}
	for item := range strings.SplitSeq(list, ",") {
		field, text, ok := strings.Cut(strings.TrimSpace(item), "=")
		off, err := strconv.ParseUint(text, 0, 16)
		if !ok || field == "" || err != nil {
			return nil, badInput(fmt.Errorf("--layout %q: want FIELD=OFFSET, the offset a number up to 65535, such as sk_buff.len=0x70", item))
		}
		fields[field] = int(off)
	}
	return fields, nil
}

// profileNames lists the profiles, those of recent kernels first.
func profileNames() string {
	var names, old []string
	for _, p := range kernelabi.Profiles() {
		if p.Emitter == "" {
			names = append(names, p.Name)
		} else {
			old = append(old, p.Name)
		}
	}
	return strings.Join(append(names, old...), ", ")
}

// flagFor is the flag that mends an image's error.
func flagFor(err error) string {
	var (
		arch       *kernelabi.ArchError
		unresolved *kernelabi.UnresolvedError
		none       *kernelabi.NoBaseError
		several    *kernelabi.AmbiguousBaseError
	)
	switch {
	case errors.As(err, &arch):
		return " (--profile)"
	case errors.As(err, &unresolved):
		return " (--symbols, --base)"
	case errors.As(err, &none), errors.As(err, &several):
		return " (--base)"
	}
	return ""
}

// loadSymbols reads a symbol file or a list; nil for "".
func loadSymbols(arg string) (*kernelabi.SymbolTable, error) {
	if arg == "" {
		return nil, nil
	}
	name, data := "--symbols", []byte(arg)
	if !strings.Contains(arg, "=") {
		var err error
		if data, err = readWhole(arg, maxInputFile); err != nil {
			return nil, err
		}
		name = arg
	}
	table, err := kernelabi.ParseSymbols(name, data)
	if err != nil {
		return nil, badInput(err)
	}
	return table, nil
}

// fromRecord is a record's program as a source.
func fromRecord(rec *kernelabi.KernelImageRecord) *source {
	return &source{Name: "record " + rec.Name, Kind: &rec.Kind, Listing: &bpftext.Listing{Program: rec.Program, Form: bpftext.JSON}}
}
