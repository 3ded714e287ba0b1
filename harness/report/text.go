package report

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// hexed puts hex beside an outcome that is a number alone.
func hexed(text string) string {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n < 10 {
		return text
	}
	return fmt.Sprintf("%s = %#x", text, n)
}

// count is a number with its noun: "1 finding", "1,234 programs".
func count[N int | uint64](n N, noun string) string {
	text := thousands(n) + " " + noun
	switch {
	case n == 1:
		return text
	case strings.HasSuffix(noun, "y"):
		return strings.TrimSuffix(text, "y") + "ies"
	}
	return text + "s"
}

// thousands writes a number with commas, and a negative one as 0.
func thousands[N int | uint64](n N) string {
	s := strconv.FormatUint(uint64(max(n, 0)), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// cut bounds a text to so many bytes.
func cut(text string, most int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= most {
		return text
	}
	end := most
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + fmt.Sprintf(" … (%s more)", count(len(text)-end, "byte"))
}

// line bounds a text that stands in a line.
func line(text string) string { return cut(strings.Join(strings.Fields(text), " "), maxLine) }

// block bounds a text that has lines of its own.
func block(text string) string { return cut(strings.TrimRight(text, "\n"), maxBlock) }

// percent is a share as people read it.
func percent(part, whole uint64) string {
	if whole == 0 {
		return "–"
	}
	share := 100 * float64(part) / float64(whole)
	if share > 0 && share < 1 {
		return fmt.Sprintf("%.2f %%", share)
	}
	return fmt.Sprintf("%.0f %%", share)
}

// quoted makes a word of a command line that a POSIX shell takes as it is.
func quoted(word string) string {
	plain := strings.IndexFunc(word, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+=,-", r)
	}) < 0
	switch {
	case plain && word != "" && word[0] != '-':
		return word
	case plain && word != "":
		return "./" + word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
