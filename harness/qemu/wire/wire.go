// Package wire carries a probe.Kernel over the console of a guest. Requests and
// answers are JSON, a line each:
//
//	{"packets":{"program":[[6,0,0,7]],"new":["3q2+7w=="],"which":[0]}}
//	kjit> {"values":{"values":[{"v":7}]}}
//
//	{"calls":{"program":[...],"word":60,"calls":[{"nr":39,...}]}}
//	kjit> {"values":{"values":[{"v":2147418112}]}}
//
// The guest speaks first: kjit> {"hello":{"release":"6.1.0-50-armmp",...}}. What
// has no mark is the kernel's log.
//
// Consoles lose what nobody reads in time. So the guest acknowledges what it has
// read, and the host keeps no more than a window under way.
package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness/livekernel/probe"
)

const (
	mark = "kjit> " // in front of an answer
	ack  = "kjit+"  // a line: one more chunk was read

	// chunk is the bytes that one acknowledgement is about; two of them may be
	// under way. A Linux terminal holds 4095 bytes.
	chunk  = 1024
	window = 2 * chunk

	// maxHeld is up to how many bytes of packets the guest keeps.
	maxHeld = 2 << 20
)

type request struct {
	Packets *packets     `json:"packets,omitempty"`
	Calls   *probe.Calls `json:"calls,omitempty"`
}

// packets are some for a socket filter. The guest keeps those that it was sent,
// so that each travels once for many programs.
type packets struct {
	Program bpf.Program `json:"program"`
	Forget  bool        `json:"forget,omitempty"` // those so far
	New     [][]byte    `json:"new,omitempty"`    // base64
	Which   []int       `json:"which"`            // of those kept, in order
}

type answer struct {
	Hello  *probe.System `json:"hello,omitempty"`
	Values *probe.Values `json:"values,omitempty"`
	Error  string        `json:"error,omitempty"`
}

// Serve answers requests about a kernel until the end of the input, which is no
// error.
func Serve(r io.Reader, w io.Writer, kernel probe.Kernel) error {
	system := kernel.System()
	if err := say(w, &answer{Hello: &system}); err != nil {
		return err
	}
	dec := json.NewDecoder(&acknowledging{r: r, w: w})
	var held [][]byte
	for {
		var req request
		if err := dec.Decode(&req); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("a request is not as the protocol has it: %w", err)
		}
		if err := say(w, serve(&req, &held, kernel)); err != nil {
			return err
		}
	}
}

// Fail tells the host that there will be no answers, and why.
func Fail(w io.Writer, why error) error { return say(w, &answer{Error: why.Error()}) }

func serve(req *request, held *[][]byte, kernel probe.Kernel) *answer {
	var out answer
	var err error
	switch p := req.Packets; {
	case p != nil:
		if p.Forget {
			*held = nil
		}
		*held = append(*held, p.New...)
		list := make([][]byte, len(p.Which))
		for i, n := range p.Which {
			if n < 0 || n >= len(*held) {
				return &answer{Error: fmt.Sprintf("packet %d was not sent", n)}
			}
			list[i] = (*held)[n]
		}
		out.Values, err = kernel.Packets(p.Program, list)
	case req.Calls != nil:
		out.Values, err = kernel.Calls(req.Calls)
	default:
		err = errors.New("a request for nothing")
	}
	if err != nil {
		return &answer{Error: err.Error()}
	}
	return &out
}

func say(w io.Writer, a *answer) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	// On a line of its own, whatever the kernel was about to print.
	_, err = fmt.Fprintf(w, "\n%s%s\n", mark, text)
	return err
}

// acknowledging is a reader that says how much it has read.
type acknowledging struct {
	r    io.Reader
	w    io.Writer
	read int // since the last acknowledgement
}

func (a *acknowledging) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	for a.read += n; a.read >= chunk; a.read -= chunk {
		if _, err := io.WriteString(a.w, "\n"+ack+"\n"); err != nil {
			return n, err
		}
	}
	return n, err
}
