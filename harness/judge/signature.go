package judge

import (
	"fmt"
	"hash/fnv"
	"path"
	"strings"
)

// Signature is the name of a fault: who, where and how. Divergences of one
// signature are taken for one fault.
type Signature struct {
	Runner string // as the runner names itself: "linux-3.0-x86_64"
	Rule   string // what was compiled wrongly: "and-k", "ldh-ind", "vlan_tci"; see [RuleAt]
	Kind   Kind
}

// String is a short name of the signature that can be that of a file:
// "linux-3.0-x86_64.and-k.value". It has lower-case letters, digits and "-._@"
// only, and tells signatures apart.
func (s Signature) String() string {
	return fileName(s.Runner, 60) + "." + fileName(s.Rule, 40) + "." + fileName(string(s.Kind), 20)
}

// fileName makes a text fit for a file's name. One that had to change gets a
// number that tells it from others like it, but for the colon of "mutant:".
func fileName(text string, most int) string {
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', strings.ContainsRune("-_.@", r):
			return r
		}
		return '-'
	}, plain(text))
	if same := strings.Replace(text, "mutant:", "mutant-", 1); safe == same && len(safe) <= most && safe != "" && safe[0] != '.' {
		return safe
	}
	h := fnv.New32a()
	h.Write([]byte(text))
	return fmt.Sprintf("%s-%08x", strings.TrimLeft(safe[:min(len(safe), most-9)], "."), h.Sum32())
}

// plain is what is to be read of a name: of a command, its program.
func plain(text string) string {
	if command, ok := strings.CutPrefix(text, "exec:"); ok {
		if words := strings.Fields(command); len(words) > 0 {
			return "exec-" + path.Base(strings.Trim(words[0], `"'`))
		}
	}
	return text
}

// slug makes one word of a sentence.
func slug(text string) string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_'
	})
	if len(words) == 0 {
		return unknownRule
	}
	return strings.Join(words[:min(len(words), 6)], "-")
}
