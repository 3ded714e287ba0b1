package corpus

import (
	"embed"
	"io/fs"
	"path"
)

//go:embed findings/*.txtar
var findings embed.FS

// Finding is a past divergence as the file that kjit replay runs again. Package
// harness/repro reads it, and its tests run every one: a file that is put into
// the folder findings is a test.
type Finding struct {
	Name string // of the file, with its extension
	Data []byte
}

// Findings returns all, in alphabetical order.
func Findings() ([]Finding, error) {
	entries, err := fs.ReadDir(findings, "findings")
	if err != nil {
		return nil, err
	}
	all := make([]Finding, len(entries))
	for i, e := range entries {
		data, err := findings.ReadFile(path.Join("findings", e.Name()))
		if err != nil {
			return nil, err
		}
		all[i] = Finding{e.Name(), data}
	}
	return all, nil
}
