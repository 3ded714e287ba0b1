package plugin

import (
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	maxWords = 2 << 10 // bytes of standard error that are kept, of the beginning and of the end
	maxShown = 300     // characters of a text that are shown

	// Of the lines these are shown: what went wrong comes first in some
	// languages and last in others.
	firstLines = 2
	lastLines  = 3
)

// lastWords reads what a process writes to standard error, so that it never has
// to wait, and keeps the beginning and the end of what it said since its last
// answer.
type lastWords struct {
	from *os.File
	done chan struct{} // closed at the end of the output

	mu   sync.Mutex
	head []byte
	tail []byte
}

func hear(from *os.File) *lastWords {
	w := &lastWords{from: from, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		var b [4096]byte
		for {
			n, err := from.Read(b[:])
			w.mu.Lock()
			room := min(n, maxWords-len(w.head))
			w.head = append(w.head, b[:room]...)
			w.tail = append(w.tail, b[room:n]...)
			w.tail = w.tail[max(0, len(w.tail)-maxWords):]
			w.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return w
}

// wait waits for the end of the output, but not longer than limit.
func (w *lastWords) wait(limit time.Duration) {
	select {
	case <-w.done:
	case <-time.After(limit):
	}
}

// close stops listening.
func (w *lastWords) close() {
	w.from.Close()
	<-w.done
}

// forget drops what was said so far.
func (w *lastWords) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.head, w.tail = w.head[:0], w.tail[:0]
}

// lines returns the first and the last lines, fit to be shown.
func (w *lastWords) lines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var lines []string
	for line := range strings.Lines(string(w.head) + string(w.tail)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, shown(line))
		}
	}
	if len(lines) > firstLines+lastLines {
		lines = slices.Concat(lines[:firstLines], []string{"..."}, lines[len(lines)-lastLines:])
	}
	return lines
}

// shown makes text from a plugin fit for one line of a terminal: not too long,
// and without characters that do anything.
func shown(text string) string {
	var b strings.Builder
	n := 0
	for _, c := range text {
		if n++; n > maxShown {
			b.WriteString("...")
			break
		}
		if c < ' ' || c >= 0x7f && c < 0xa0 || c == utf8.RuneError || c >= 0x2028 && c <= 0x202e || c >= 0x2066 && c <= 0x2069 {
			c = '?'
		}
		b.WriteRune(c)
	}
	return b.String()
}
