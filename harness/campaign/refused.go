package campaign

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness/generate"
	"github.com/kjit-project/kjit/kernelabi"
)

// refusedFile has what external JITs refuse. Who looks at the folder later cannot
// ask them: nothing starts a command because a file names it.
const refusedFile = "refused.json"

// Refused returns the opcodes, and from 256 on the ancillary loads, that each
// external JIT leaves to the interpreter in programs of both kinds, by the JIT's
// name. It asks them.
func (c *Config) Refused() (map[string][]uint32, error) {
	refused := map[string][]uint32{}
	for i := range c.Targets {
		t := &c.Targets[i]
		if t.Open == nil {
			continue
		}
		r, err := t.Open()
		if err != nil {
			return nil, err
		}
		cfg := generate.ForJITs(generate.JIT{
			Profile: t.Profile,
			Compile: func(prog bpf.Program, kind bpf.Kind, _ *kernelabi.Profile) (*kernelabi.Image, error) {
				return r.Image(prog, kind)
			},
		})
		entries := []uint32{} // even if there are none: it was asked
		socket, seccomp := &cfg.Features[bpf.Socket], &cfg.Features[bpf.Seccomp]
		for code := range socket.Codes {
			if socket.Codes[code] != generate.Often && seccomp.Codes[code] != generate.Often {
				entries = append(entries, uint32(code))
			}
		}
		for n, use := range socket.Exts {
			if use != generate.Often {
				entries = append(entries, uint32(256+n))
			}
		}
		refused[t.Name] = entries
		if err := r.Close(); err != nil {
			return nil, err
		}
	}
	return refused, nil
}

// keepRefused writes what external JITs refuse, if there are any. It replaces what
// an earlier build of them refused.
func (f *Folder) keepRefused(c *Config) error {
	refused, err := c.Refused()
	if err != nil || len(refused) == 0 {
		return err
	}
	data, err := json.Marshal(refused)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(f.Dir, refusedFile), append(data, '\n'))
}

// ReadRefused returns what [Config.Refused] returned for the campaign in a folder,
// as far as it is known there.
func ReadRefused(dir string) (refused map[string][]uint32) {
	data, err := os.ReadFile(filepath.Join(dir, refusedFile))
	if err != nil || json.Unmarshal(data, &refused) != nil {
		return nil
	}
	return refused
}
