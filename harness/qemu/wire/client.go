package wire

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness/livekernel/probe"
)

// maxLine is what one answer may have in bytes.
const maxLine = 16 << 20

// Client is a kernel at the other end of a line. Its end of the line is closed
// by others: reads end then, and so does every method.
type Client struct {
	w       io.Writer
	answers chan []byte
	acks    chan struct{}
	over    chan struct{} // closed when nothing more will come
	why     error         // of that; set before

	system   probe.System
	underway int            // bytes that were not acknowledged
	known    map[string]int // packets that the guest keeps
	held     int            // bytes of them
}

// GoneError is a line that ended where an answer was to come.
type GoneError struct{ Reason error }

func (e *GoneError) Error() string { return "the guest has gone: " + e.Reason.Error() }
func (e *GoneError) Unwrap() error { return e.Reason }

// Dial waits for the guest's first words. Lines of the kernel's log go to log,
// from another goroutine. The error is a *GoneError, or what the guest says.
func Dial(r io.Reader, w io.Writer, log func(line string)) (*Client, error) {
	c := &Client{w: w, answers: make(chan []byte, 2), acks: make(chan struct{}, 16), over: make(chan struct{}), known: map[string]int{}}
	go c.listen(r, log)
	hello, err := c.answer()
	if err != nil {
		return nil, err
	}
	if hello.Hello == nil {
		return nil, errors.New("the guest does not say what it is")
	}
	c.system = *hello.Hello
	return c, nil
}

// listen sorts what comes over the line, up to its end.
func (c *Client) listen(r io.Reader, log func(string)) {
	defer close(c.over)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		line := strings.TrimRight(lines.Text(), "\r")
		before, text, marked := strings.Cut(line, mark)
		switch {
		case line == ack:
			select {
			case c.acks <- struct{}{}:
			default:
				c.why = errors.New("more was acknowledged than sent")
				return
			}
		case marked && before == "":
			select {
			case c.answers <- []byte(text):
			default:
				c.why = errors.New("more was answered than asked")
				return
			}
		case line != "":
			log(line)
		}
	}
	if c.why = lines.Err(); c.why == nil {
		c.why = io.EOF
	}
}

// answer waits for one.
func (c *Client) answer() (*answer, error) {
	var text []byte
	select {
	case text = <-c.answers:
	case <-c.over:
		select {
		case text = <-c.answers: // it came just before the end
		default:
			return nil, &GoneError{c.why}
		}
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, fmt.Errorf("the guest's answer is not as the protocol has it: %w", err)
	}
	if a.Error != "" {
		return nil, errors.New("the guest says: " + a.Error)
	}
	return &a, nil
}

// ask sends a request, no faster than it is read, and waits for the answer.
func (c *Client) ask(req *request) (*answer, error) {
	text, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	for text = append(text, '\n'); len(text) > 0; {
		part := text[:min(len(text), window-c.underway)]
		if len(part) == 0 {
			select {
			case <-c.acks:
				c.underway -= chunk
			case <-c.over:
				return nil, &GoneError{c.why}
			}
			continue
		}
		n, err := c.w.Write(part)
		if err != nil {
			return nil, &GoneError{err}
		}
		c.underway, text = c.underway+n, text[n:]
	}
	return c.answer()
}

// System is what the guest said at first.
func (c *Client) System() probe.System { return c.system }

// Packets sends those that the guest has not yet.
func (c *Client) Packets(prog bpf.Program, list [][]byte) (*probe.Values, error) {
	total := &probe.Values{}
	for {
		req := &packets{Program: prog, Which: []int{}}
		if c.held > maxHeld {
			req.Forget, c.held = true, 0
			clear(c.known)
		}
		for len(list) > 0 && c.held <= maxHeld {
			n, ok := c.known[string(list[0])]
			if !ok {
				n = len(c.known)
				c.known[string(list[0])] = n
				c.held += len(list[0]) + 1
				req.New = append(req.New, list[0])
			}
			req.Which, list = append(req.Which, n), list[1:]
		}
		values, err := c.values(&request{Packets: req}, len(req.Which))
		if err != nil || values.Errno != 0 {
			return values, err
		}
		total.Values = append(total.Values, values.Values...)
		if len(list) == 0 {
			return total, nil
		}
	}
}

// Calls has the guest make system calls.
func (c *Client) Calls(calls *probe.Calls) (*probe.Values, error) {
	return c.values(&request{Calls: calls}, len(calls.Calls))
}

// values asks for n values.
func (c *Client) values(req *request, n int) (*probe.Values, error) {
	a, err := c.ask(req)
	switch {
	case err != nil:
		return nil, err
	case a.Values == nil:
		return nil, errors.New("the guest's answer is about something else")
	case a.Values.Errno == 0 && len(a.Values.Values) != n:
		return nil, fmt.Errorf("the guest has %d values for %d inputs", len(a.Values.Values), n)
	}
	return a.Values, nil
}

// Close does nothing: the line is others'.
func (c *Client) Close() error { return nil }
