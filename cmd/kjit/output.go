package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// output is a file that a command writes as a whole, or standard output. The
// file gets its name when it is complete: nobody ever sees half of it, and what
// had the name before is kept until then.
type output struct {
	name   string // "": standard output
	stdout io.Writer
}

// openOutput finds out whether the file can be written, before any work is done
// for it.
func openOutput(name string, stdout io.Writer) (*output, error) {
	o := &output{name, stdout}
	if name == "" || name == "-" {
		o.name = ""
		return o, nil
	}
	if err := o.check(); err != nil {
		return nil, badInput(fmt.Errorf("-o %w", err))
	}
	return o, nil
}

// writeWhole writes a file as a whole.
func writeWhole(name string, data []byte) error {
	o := &output{name: name}
	if err := o.check(); err != nil {
		return err
	}
	return o.write(data)
}

// check finds out whether the file can be written.
func (o *output) check() error {
	cannot := func(err error) error {
		var path *fs.PathError
		if errors.As(err, &path) {
			err = path.Err // the path is that of a temporary file
		}
		return fmt.Errorf("%s: cannot be written: %w", o.name, err)
	}
	switch info, err := os.Stat(o.name); {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s: is a folder: name a file in it", o.name)
	case err == nil && !info.Mode().IsRegular():
		return nil // a pipe, a terminal
	case err == nil:
		f, err := os.OpenFile(o.name, os.O_WRONLY, 0) // what is read-only is not replaced
		if err != nil {
			return cannot(err)
		}
		f.Close()
	}
	f, err := o.temporary()
	if err != nil {
		return cannot(err)
	}
	f.Close()
	os.Remove(f.Name())
	return nil
}

// target is the file itself, at the end of symbolic links.
func (o *output) target() string {
	if real, err := filepath.EvalSymlinks(o.name); err == nil {
		return real
	}
	return o.name
}

// temporary creates a file beside the target, with the mode that the user gives
// to new files.
func (o *output) temporary() (*os.File, error) {
	name := fmt.Sprintf(".kjit-%d", os.Getpid())
	return os.OpenFile(filepath.Join(filepath.Dir(o.target()), name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
}

// write writes the whole output.
func (o *output) write(data []byte) error {
	if o.name == "" {
		_, err := o.stdout.Write(data)
		return err
	}
	old, err := os.Stat(o.name)
	exists := err == nil
	if exists && !old.Mode().IsRegular() {
		return os.WriteFile(o.name, data, 0)
	}
	f, err := o.temporary()
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && exists {
		err = f.Chmod(old.Mode().Perm())
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(f.Name(), o.target())
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
