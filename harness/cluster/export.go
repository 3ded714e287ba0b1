package cluster

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/kjit-project/kjit/harness/campaign"
	"github.com/kjit-project/kjit/harness/repro"
)

// Findings is what a campaign has found.
type Findings struct {
	State   *campaign.State
	Reports []*campaign.Report // in the order in which they came
	Poisons []Poison
}

// Export writes a file for every finding into a folder ("": none) and returns
// what there is.
func (s *Store) Export(ctx context.Context, dir string) (*Findings, error) {
	state, err := s.Load(ctx)
	if err != nil {
		return nil, err
	}
	entries, err := s.Entries(ctx)
	if err != nil {
		return nil, err
	}
	f := &Findings{State: state}
	if f.Poisons, err = s.Poisons(ctx); err != nil {
		return nil, err
	}
	f.Reports, err = WriteFindings(dir, state, entries)
	return f, err
}

// WriteFindings writes a file for every finding of a state into a folder ("":
// none): the smallest reproducer where there is one, what was found where there is
// none yet. Files that are as they should be are left alone. entries are by key,
// as Coordinator.Merged gets them.
func WriteFindings(dir string, state *campaign.State, entries map[string]*Entry) ([]*campaign.Report, error) {
	var out []*campaign.Report
	for _, f := range state.Findings() {
		r := campaign.NewReport(cleanFinding(f))
		var data []byte
		if e := entries[keyOf(f.Signature())]; e != nil && e.Final {
			r.Story, r.Insns, r.Bytes, r.Shows, r.Shrunk = clean(e.Story), e.Insns, e.Bytes, e.Shows, e.Shrunk
			data = []byte(e.File)
		}
		if dir != "" {
			if len(data) == 0 {
				var err error
				if data, err = rawFile(f); err != nil {
					return nil, err
				}
			}
			r.File = filepath.Join(dir, f.Signature().String()+repro.Extension)
			if err := writeFile(r.File, data); err != nil {
				return nil, err
			}
		}
		out = append(out, r)
	}
	return out, nil
}

// rawFile is the file of a finding that nobody has made smaller.
func rawFile(f *campaign.Finding) ([]byte, error) {
	r := f.Repro()
	r.Want, r.Got, r.Comments = oneLine(f.Want), oneLine(f.Got), []string{campaign.CommentRaw}
	return r.Format()
}

func oneLine(text string) string { return strings.Join(strings.Fields(clean(text)), " ") }

// clean takes out of a text from anywhere what a terminal would act upon.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// cleanFinding is a finding whose texts can be shown.
func cleanFinding(f *campaign.Finding) *campaign.Finding {
	c := *f
	c.Want, c.Got = clean(c.Want), clean(c.Got)
	return &c
}

// writeFile replaces a file unless it is as it should be: nobody ever sees half of
// one.
func writeFile(path string, data []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return replaceFile(path, data, 0o644)
}

func replaceFile(path string, data []byte, mode fs.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".kjit-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err := errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close()); err != nil {
		os.Remove(tmp.Name())
		return err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		os.Remove(tmp.Name())
		return err
	}
	return nil
}

// Clean returns a status whose texts a terminal does not act upon.
func (st *Status) Clean() *Status {
	c := *st
	c.Workers = slices.Clone(c.Workers)
	for i := range c.Workers {
		w := &c.Workers[i]
		w.Host, w.Version, w.Error = clean(w.Host), clean(w.Version), clean(w.Error)
	}
	c.Summary.Targets = slices.Clone(c.Summary.Targets)
	for i := range c.Summary.Targets {
		c.Summary.Targets[i].JIT = clean(c.Summary.Targets[i].JIT)
	}
	return &c
}
