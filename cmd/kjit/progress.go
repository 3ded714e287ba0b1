package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress is a bar on a terminal for what takes longer than a second, and
// nothing elsewhere.
type progress struct {
	bar     *progressbar.ProgressBar // nil where there is no terminal
	pending int
}

// newProgress starts a bar; total -1 stands for an unknown one.
func newProgress(w io.Writer, total int, what string) *progress {
	if drawable(w) == nil {
		return &progress{}
	}
	return &progress{bar: progressbar.NewOptions(total,
		progressbar.OptionSetWriter(&lateWriter{w: w, from: time.Now().Add(time.Second)}),
		progressbar.OptionSetDescription(what), progressbar.OptionShowCount(),
		progressbar.OptionShowIts(), progressbar.OptionSetItsString(what),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())}
}

// drawable is the terminal that w is, if lines can change there; nil if not.
func drawable(w io.Writer) *os.File {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return f
}

func (p *progress) add(n int) {
	if p.bar == nil {
		return
	}
	// The bar looks at the clock each time, which costs more than many an item.
	if p.pending += n; p.pending >= 64 {
		p.bar.Add(p.pending)
		p.pending = 0
	}
}

// clear takes the bar off the terminal until addNow, which counts one, draws it.
func (p *progress) clear() {
	if p.bar != nil {
		p.bar.Clear()
	}
}

func (p *progress) addNow() {
	if p.bar != nil {
		p.bar.Add(1)
	}
}

func (p *progress) close() {
	if p.bar != nil {
		p.bar.Finish()
	}
}

// lateWriter drops what comes before its time.
type lateWriter struct {
	w    io.Writer
	from time.Time
}

func (l *lateWriter) Write(p []byte) (int, error) {
	if time.Now().Before(l.from) {
		return len(p), nil
	}
	return l.w.Write(p)
}
