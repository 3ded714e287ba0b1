package bpftext

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/kjit-project/kjit/bpf"
)

// tokenKind is a punctuation mark, 'x', 'a' or 'M' for itself, or one of:
type tokenKind byte

const (
	tokEnd       tokenKind = 0
	tokMnemonic  tokenKind = 'o'
	tokNumber    tokenKind = 'n'
	tokLabel     tokenKind = 'i'
	tokExtension tokenKind = 'e'
	tokLen       tokenKind = 'L'
	tokUnknown   tokenKind = '?'
)

type token struct {
	kind   tokenKind
	text   string // as written; mnemonics in lower case
	number uint32 // of a number, and k of an extension
	line   int
}

// reserved reports whether the token is the name of a register or of the memory.
func (t token) reserved() bool { return t.kind == 'a' || t.kind == 'x' || t.kind == 'M' }

// asmLexer cuts bpf_asm source into tokens. Where two rules match, the longer
// match wins, as in the lexer of the kernel's bpf_asm.
type asmLexer struct {
	src      string
	pos      int
	line     int
	strict   bool
	comments []string
	taken    liberties
}

func newAsmLexer(data []byte, strict bool) *asmLexer {
	lx := &asmLexer{src: string(data), line: 1, strict: strict}
	if !strict {
		lx.src = plainText(data)
		if lx.src != string(data) {
			lx.taken.add(mailAndEditors)
		}
	}
	return lx
}

var (
	asmNumber = regexp.MustCompile(`^(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[-+]?[1-9][0-9]*)`)
	asmWord   = regexp.MustCompile(`^#?[A-Za-z_][A-Za-z0-9_]*`)
)

const asmPunctuation = ":,#%[]()+*&"

func (lx *asmLexer) next() token {
	lx.skip()
	rest := lx.src[lx.pos:]
	if rest == "" {
		return token{line: lx.line}
	}
	t := lx.match(rest)
	t.line = lx.line
	lx.pos += len(t.text)
	if t.kind == tokMnemonic {
		t.text = strings.ToLower(t.text)
	}
	return t
}

// match finds the token at the start of rest.
func (lx *asmLexer) match(rest string) token {
	if number := asmNumber.FindString(rest); number != "" {
		return token{kind: tokNumber, text: number, number: asmValue(number)}
	}
	if strings.IndexByte("#", rest[0]) < 0 && strings.IndexByte(asmPunctuation, rest[0]) >= 0 {
		return token{kind: tokenKind(rest[0]), text: rest[:1]}
	}
	word := asmWord.FindString(rest)
	if hash := strings.HasPrefix(rest, "#"); hash {
		return hashToken(word)
	}
	lower := strings.ToLower(word)
	switch {
	case word == "":
		return token{kind: tokUnknown, text: rest[:1]}
	case asmOps[lower] != nil:
		return token{kind: tokMnemonic, text: word}
	case lower == "len":
		return token{kind: tokLen, text: word}
	case lower == "x", lower == "a":
		return token{kind: tokenKind(lower[0]), text: word}
	case lower == "m":
		return token{kind: 'M', text: word}
	case len(word) == 1 && lx.strict:
		return token{kind: tokUnknown, text: word}
	}
	if ext, ok := asmExtensions[lower]; ok {
		return token{kind: tokExtension, text: word, number: ext.K()}
	}
	if len(word) == 1 {
		lx.taken.add(shortLabel)
	}
	return token{kind: tokLabel, text: word}
}

// maxExtension is the length of the longest name, vlan_avail.
const maxExtension = 10

// hashToken finds the longest extension that word, "#" and letters, starts
// with: "#nlanx" is "#nlan" and "x".
func hashToken(word string) token {
	for n := min(len(word), maxExtension+1); n > 1; n-- {
		name := strings.ToLower(word[1:n])
		if name == "len" {
			return token{kind: tokLen, text: word[:n]}
		}
		if ext, ok := asmExtensions[name]; ok {
			return token{kind: tokExtension, text: word[:n], number: ext.K()}
		}
	}
	return token{kind: '#', text: "#"}
}

// asmExtensions are the names that bpf_asm reserves. libpcap's other names are
// labels to it.
var asmExtensions = func() map[string]bpf.Extension {
	names := map[string]bpf.Extension{"vlan_avail": bpf.ExtVlanPr}
	for e := bpf.Extension(0); e.Known(); e += 4 {
		if e != bpf.ExtXorX {
			names[e.String()] = e
		}
	}
	return names
}()

// asmValue is the value of a number that asmNumber matched: bpf_asm reads it
// with strtol or strtoul, 64 bits wide, and keeps the low 32 bits.
func asmValue(s string) uint32 {
	lower := strings.ToLower(s)
	if digits, ok := strings.CutPrefix(lower, "0x"); ok {
		v, _ := strconv.ParseUint(digits, 16, 64) // the largest value when out of range
		return uint32(v)
	}
	base := 10
	if digits, ok := strings.CutPrefix(lower, "0b"); ok {
		lower, base = digits, 2
	} else if s[0] == '0' {
		base = 8
	}
	v, _ := strconv.ParseInt(lower, base, 64) // likewise the nearest value
	return uint32(v)
}

// skip passes over blanks and comments.
func (lx *asmLexer) skip() {
	for lx.pos < len(lx.src) {
		rest := lx.src[lx.pos:]
		n := 0
		switch {
		case rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\n':
			n = 1
		case rest[0] == ';':
			n = lx.lineComment(rest)
		case rest[0] == '#' && lx.atLineStart():
			n = lx.hashComment(rest)
		case strings.HasPrefix(rest, "/*"):
			n = lx.blockComment(rest)
		case strings.HasPrefix(rest, "//") && !lx.strict:
			lx.taken.add(slashComment)
			n = lx.lineComment(rest)
		}
		if n == 0 {
			return
		}
		lx.line += strings.Count(rest[:n], "\n")
		lx.pos += n
	}
}

func (lx *asmLexer) atLineStart() bool { return lx.pos == 0 || lx.src[lx.pos-1] == '\n' }

// lineComment returns the length of the rest of the line. A comment that has
// the line for itself is kept.
func (lx *asmLexer) lineComment(rest string) int {
	text, _, _ := strings.Cut(rest, "\n")
	start := strings.LastIndexByte(lx.src[:lx.pos], '\n') + 1
	if strings.Trim(lx.src[start:lx.pos], " \t") == "" {
		comment, _ := commentText(text)
		lx.comments = append(lx.comments, comment)
	}
	return len(text)
}

// hashComment is a line comment, but a line that is nothing but "#len" or such
// is that token, being as long, and so is a lone "#".
func (lx *asmLexer) hashComment(rest string) int {
	text, _, _ := strings.Cut(rest, "\n")
	if t := hashToken(asmWord.FindString(text)); len(t.text) == len(text) {
		if lx.strict || text != "#" {
			return 0
		}
		lx.taken.add(loneHash)
	}
	return lx.lineComment(rest)
}

// blockComment ends at "*/". In bpf_asm a "*" takes the character behind it
// along, so that "**/" does not end a comment.
func (lx *asmLexer) blockComment(rest string) int {
	exact := 0
	for i := 2; i+1 < len(rest) && exact == 0; i++ {
		switch {
		case rest[i] != '*':
		case rest[i+1] == '/':
			exact = i + 2
		default:
			i++
		}
	}
	if lx.strict {
		return exact
	}
	end := strings.Index(rest[2:], "*/")
	if end < 0 {
		return 0
	}
	if end += 4; end != exact {
		lx.taken.add(starComment)
	}
	return end
}
