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
	w     io.Writer
	total int
	what  string
	start time.Time
	done  int
	bar   *progressbar.ProgressBar
}

func newProgress(w io.Writer, total int, what string) *progress {
	p := &progress{total: total, what: what, start: time.Now()}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.w = w
	}
	return p
}

func (p *progress) add(n int) {
	p.done += n
	if p.w == nil {
		return
	}
	if p.bar == nil {
		// Looking at the clock for every item would cost more than the item.
		if p.done&0xff != 0 || time.Since(p.start) < time.Second {
			return
		}
		p.bar = progressbar.NewOptions(p.total,
			progressbar.OptionSetWriter(p.w), progressbar.OptionSetDescription(p.what),
			progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString(p.what),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
		n = p.done
	}
	p.bar.Add(n)
}

func (p *progress) close() {
	if p.bar != nil {
		p.bar.Finish()
	}
}
