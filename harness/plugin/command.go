package plugin

import (
	"errors"
	"fmt"
	"strings"
)

// ParseCommand splits a command line into the command and its arguments, at
// blanks. Single and double quotes keep what is between them together; nothing
// else has a meaning: for more there is sh -c '...'.
func ParseCommand(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	begun := false // an empty word counts if it has quotes
	end := func() {
		if begun {
			words = append(words, word.String())
		}
		word.Reset()
		begun = false
	}
	quote := rune(0)
	for _, c := range line {
		switch {
		case c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, begun = c, true
		case strings.ContainsRune(" \t\n", c):
			end()
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	end()
	if quote != 0 {
		return nil, fmt.Errorf("command %q: a %c is not closed", line, quote)
	}
	if len(words) == 0 || words[0] == "" {
		return nil, errors.New("no command: name the plugin's program")
	}
	return words, nil
}

// FormatCommand writes a command and its arguments as ParseCommand takes them.
func FormatCommand(words []string) string {
	line := make([]string, len(words))
	for i, w := range words {
		if w == "" || strings.ContainsAny(w, " \t\n'\"") {
			w = "'" + strings.ReplaceAll(w, "'", `'"'"'`) + "'"
		}
		line[i] = w
	}
	return strings.Join(line, " ")
}
