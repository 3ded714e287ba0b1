package bpftext

import (
	"bytes"
	"regexp"
	"strings"
)

// source is a text input made ready: no byte order mark, no CR before a line
// end, no "> " of quoted mail, comment lines blanked. Lines keep their numbers.
type source struct {
	name     string
	text     string
	comments []string
}

var (
	bom   = []byte("\xef\xbb\xbf")
	utf16 = [][]byte{[]byte("\xff\xfe"), []byte("\xfe\xff")}

	// A preprocessor line looks like a "#" comment but tells the reader of
	// Comments nothing.
	preprocessor = regexp.MustCompile(`^#(include|define|undef|ifdef|ifndef|if|elif|else|endif|pragma|error)\b`)
)

func newSource(name string, data []byte) source {
	s := source{name: name}
	lines := strings.Split(plainText(data), "\n")
	continued := false // the line before was a preprocessor line ending in "\"
	for n, line := range lines {
		trimmed := strings.TrimSpace(line)
		directive := continued || preprocessor.MatchString(trimmed)
		continued = directive && strings.HasSuffix(trimmed, `\`)
		if text, ok := commentText(trimmed); ok && !directive {
			s.comments = append(s.comments, text)
		} else if !directive {
			continue
		}
		lines[n] = ""
	}
	s.text = strings.Join(lines, "\n")
	return s
}

// plainText undoes what mail, editors and other systems do to text.
func plainText(data []byte) string {
	lines := strings.Split(string(bytes.TrimPrefix(data, bom)), "\n")
	for n, line := range lines {
		line = strings.TrimRight(line, "\r")
		for {
			quoted, ok := strings.CutPrefix(strings.TrimLeft(line, " \t"), ">")
			if !ok {
				break
			}
			line = quoted
		}
		lines[n] = line
	}
	return strings.Join(lines, "\n")
}

// commentText strips the marker from a comment line.
func commentText(line string) (text string, ok bool) {
	for _, marker := range []string{";", "#", "//"} {
		if strings.HasPrefix(line, marker) {
			return strings.TrimSpace(strings.TrimLeft(line, marker[:1])), true
		}
	}
	return "", false
}

func (s *source) errorAt(line int, reason string) error { return &Error{s.name, line, reason} }

// lineCounter turns growing offsets into line numbers.
type lineCounter struct {
	text      string
	off, line int
}

func (c *lineCounter) at(off int) int {
	if c.line == 0 {
		c.line = 1
	}
	c.line += strings.Count(c.text[c.off:off], "\n")
	c.off = off
	return c.line
}

// The marks that tell the forms apart. A listing needs a line that starts as
// one of its own, so that "(1) do this" in prose is none.
var (
	markD     = regexp.MustCompile(`(?m)^[ \t]*\(\d+\)\s+(?:` + strings.Join(pcapNames(), "|") + `)\b`)
	markSS    = regexp.MustCompile(`bpf filter \(\d+\):`)
	markJSON  = regexp.MustCompile(`^\s*\[\s*[\[\]]`)
	markC     = regexp.MustCompile(`\{\s*(?:\d\w*\s*,|\.code\b|BPF_\w+)|\bBPF_(?:STMT|JUMP)\s*\(`)
	markComma = regexp.MustCompile(`(?m)^[ \t]*["']?[ \t]*\d+[ \t]*,[ \t]*\d|^[ \t]*load[ \t]+bpf[ \t]|--bytecode\s`)
	markDDD   = regexp.MustCompile(`(?m)^[ \t]*\d+[ \t]*$`)
)

// detect finds the form of an input; ok is false when it has none.
func detect(data []byte) (form Form, ok bool) {
	if bytes.IndexByte(data, 0) >= 0 {
		return detectRaw(data), true // the upper byte of a code is always 0
	}
	src := newSource("", data)
	text := src.text
	switch {
	case markD.MatchString(text):
		return D, true
	case markSS.MatchString(text):
		return SS, true
	case markJSON.MatchString(text):
		return JSON, true
	case markC.MatchString(withoutRemarks(text)):
		return DD, true
	case markComma.MatchString(text):
		return Comma, true
	case markDDD.MatchString(text):
		return DDD, true
	}
	return Asm, looksLikeAsm(data)
}

func hasPrefix(data []byte, any [][]byte) bool {
	for _, p := range any {
		if bytes.HasPrefix(data, p) {
			return true
		}
	}
	return false
}

// withoutRemarks drops block comments and what follows ";" on each line, where
// bpf_asm source may quote other forms.
func withoutRemarks(text string) string {
	return remark.ReplaceAllString(text, "")
}

var remark = regexp.MustCompile(`(?s:/\*.*?\*/)|;.*`)
