package repro

import (
	"bytes"
	"strings"
)

// archive is a text archive (txtar): a head, and files behind lines "-- name --".
// The readers of that form that there are panic on some inputs, and ours are
// from strangers.
type archive struct {
	head  []byte
	files []archived
}

type archived struct {
	name string
	data []byte
}

// parseArchive reads any text. What is in front of the first line with a name,
// which may be all, is the head. Each part ends with a line end.
func parseArchive(text []byte) *archive {
	a := &archive{}
	at := &a.head
	for line := range bytes.Lines(text) {
		if name := fileName(line); name != "" {
			a.files = append(a.files, archived{name, []byte{}})
			at = &a.files[len(a.files)-1].data
			continue
		}
		*at = append(*at, line...)
	}
	if len(*at) > 0 && (*at)[len(*at)-1] != '\n' {
		*at = append(*at, '\n')
	}
	return a
}

// fileName is the name in a line "-- name --", "" in any other.
func fileName(line []byte) string {
	rest, begins := strings.CutPrefix(strings.TrimRight(string(line), "\r\n"), "-- ")
	name, ends := strings.CutSuffix(rest, " --")
	if !begins || !ends {
		return ""
	}
	return strings.TrimSpace(name)
}

// format writes the archive. Each part ends with a line end.
func (a *archive) format() []byte {
	var b bytes.Buffer
	part := func(data []byte) {
		b.Write(data)
		if len(data) > 0 && data[len(data)-1] != '\n' {
			b.WriteByte('\n')
		}
	}
	part(a.head)
	for _, f := range a.files {
		b.WriteString("-- " + f.name + " --\n")
		part(f.data)
	}
	return b.Bytes()
}
