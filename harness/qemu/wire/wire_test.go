package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness/livekernel/probe"
	"github.com/kjit-project/kjit/seccompdata"
)

// fake is a kernel without one: the value of a packet is its first byte, and
// that of a call its number.
type fake struct{ packets int }

func (f *fake) System() probe.System {
	return probe.System{Release: "6.1.0", Machine: "armv7l", GOARCH: "arm", JIT: "1"}
}
func (f *fake) Close() error { return nil }

func (f *fake) Packets(prog bpf.Program, packets [][]byte) (*probe.Values, error) {
	if len(prog) == 0 {
		return &probe.Values{Errno: 22}, nil
	}
	values := &probe.Values{}
	for _, p := range packets {
		f.packets++
		values.Values = append(values.Values, probe.Value{Value: uint32(p[0])})
	}
	return values, nil
}

func (f *fake) Calls(c *probe.Calls) (*probe.Values, error) {
	if c.Word == 0 {
		return nil, errors.New("no word")
	}
	values := &probe.Values{}
	for _, call := range c.Calls {
		values.Values = append(values.Values, probe.Value{Value: call.Nr})
	}
	return values, nil
}

// console passes what is written to it on to its reader, and loses what is more
// than a terminal holds.
type console struct {
	mu     sync.Mutex
	filled *sync.Cond
	held   []byte
	closed bool
	most   int // bytes that were held
	total  int
}

const consoleHolds = 4095

func newConsole() *console {
	c := &console{}
	c.filled = sync.NewCond(&c.mu)
	return c
}

func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = append(c.held, p...)
	c.total += len(p)
	c.most = max(c.most, len(c.held))
	c.held = c.held[:min(len(c.held), consoleHolds)]
	c.filled.Broadcast()
	return len(p), nil
}

func (c *console) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.held) == 0 {
		if c.closed {
			return 0, io.EOF
		}
		c.filled.Wait()
	}
	n := copy(p, c.held)
	c.held = c.held[n:]
	return n, nil
}

func (c *console) hangUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.filled.Broadcast()
}

// dial returns a client of a served fake, and the console that requests go
// through.
func dial(t *testing.T, log func(string)) (*Client, *fake, *console) {
	t.Helper()
	kernel, requests := &fake{}, newConsole()
	answers, theirs := io.Pipe()
	served := make(chan error)
	go func() {
		fmt.Fprint(theirs, "[    0.1] a kernel\r\n[    0.2] talks")
		err := Serve(requests, theirs, kernel)
		theirs.Close()
		served <- err
	}()
	c, err := Dial(answers, requests, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		requests.hangUp()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return c, kernel, requests
}

var prog = bpf.Program{{Code: bpf.RetK, K: 7}}

func values(list ...uint32) *probe.Values {
	v := &probe.Values{}
	for _, value := range list {
		v.Values = append(v.Values, probe.Value{Value: value})
	}
	return v
}

func TestConversation(t *testing.T) {
	var log []string
	c, kernel, requests := dial(t, func(line string) { log = append(log, line) })
	if diff := cmp.Diff(kernel.System(), c.System()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"[    0.1] a kernel", "[    0.2] talks"}, log); diff != "" {
		t.Error(diff)
	}

	got, err := c.Packets(prog, [][]byte{{9}, {2, 3}})
	if diff := cmp.Diff(values(9, 2), got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	got, err = c.Packets(nil, [][]byte{{9}})
	if diff := cmp.Diff(&probe.Values{Errno: 22}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	got, err = c.Packets(prog, nil)
	if diff := cmp.Diff(values(), got); diff != "" || err != nil {
		t.Error(diff, err)
	}

	calls := []seccompdata.Data{{Nr: 39, Args: [6]uint64{1 << 63}}, {Nr: 1<<32 - 1}}
	got, err = c.Calls(&probe.Calls{Program: prog, Word: 60, Calls: calls})
	if diff := cmp.Diff(values(39, 1<<32-1), got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if _, err := c.Calls(&probe.Calls{}); err == nil || err.Error() != "the guest says: no word" {
		t.Error(err)
	}

	// A packet travels once, and none is sent before there is room for it.
	large := make([][]byte, 20)
	for i := range large {
		large[i] = bytes.Repeat([]byte{byte(i)}, 10000)
	}
	for range 3 {
		before := requests.total
		got, err := c.Packets(prog, large)
		if err != nil || len(got.Values) != len(large) || got.Values[19].Value != 19 {
			t.Fatal(got, err)
		}
		t.Logf("%d bytes sent, at most %d under way", requests.total-before, requests.most)
	}
	if requests.total > 300000 {
		t.Errorf("%d bytes sent for 200000 of packets", requests.total)
	}
	if requests.most > window {
		t.Errorf("%d bytes were under way, the window is %d", requests.most, window)
	}
}

// What the guest cannot keep at once goes in several requests.
func TestManyBytes(t *testing.T) {
	c, kernel, _ := dial(t, func(string) {})
	list := make([][]byte, 6)
	for i := range list {
		list[i] = bytes.Repeat([]byte{byte(i + 2)}, maxHeld/4)
	}
	for range 2 {
		got, err := c.Packets(prog, list)
		if diff := cmp.Diff(values(2, 3, 4, 5, 6, 7), got); diff != "" || err != nil {
			t.Fatal(diff, err)
		}
	}
	if kernel.packets != 12 {
		t.Errorf("%d packets arrived", kernel.packets)
	}
}

// A guest that speaks otherwise ends in an error.
func TestBrokenGuests(t *testing.T) {
	const hello = mark + `{"hello":{"release":"6.1.0"}}` + "\n"
	for _, test := range []struct {
		desc, says, want string
	}{
		{"Silence.", "", "the guest has gone: EOF"},
		{"A kernel that never comes to its program.", "[ 1.0] panic\n", "the guest has gone: EOF"},
		{"A program that cannot work.", mark + `{"error":"no /proc"}` + "\n", "the guest says: no /proc"},
		{"Half a hello.", mark + `{"hello":{"rel` + "\n", "the guest's answer is not as the protocol has it: unexpected end of JSON input"},
		{"An answer to nothing.", mark + "{}\n", "the guest does not say what it is"},
		{"A guest that ends after its hello.", hello, "the guest has gone: EOF"},
		{"An answer about something else.", hello + hello, "the guest's answer is about something else"},
		{"Too many values.", hello + mark + `{"values":{"values":[{"v":1},{"v":2}]}}` + "\n", "the guest has 2 values for 1 inputs"},
		{"A mark in the middle of a line is no answer.", hello + "log: " + mark + "{}\n", "the guest has gone: EOF"},
		{"Babble.", strings.Repeat("x", maxLine+1), "the guest has gone: bufio.Scanner: token too long"},
		{"Acknowledgements of nothing.", strings.Repeat(ack+"\n", 20), "the guest has gone: more was acknowledged than sent"},
	} {
		c, err := Dial(strings.NewReader(test.says), io.Discard, func(string) {})
		if err == nil {
			_, err = c.Packets(prog, [][]byte{{1}})
		}
		if err == nil || err.Error() != test.want {
			t.Errorf("%s\n got %v\nwant %s", test.desc, err, test.want)
		}
	}
}

// So does a host.
func TestBrokenHosts(t *testing.T) {
	for _, test := range []struct {
		desc, says, want, err string
	}{
		{"The end.", "", "", ""},
		{"No request.", "{}", "a request for nothing", ""},
		{"A packet that was not sent.", `{"packets":{"program":[[6,0,0,1]],"which":[0]}}`, "packet 0 was not sent", ""},
		{"A negative one.", `{"packets":{"program":[[6,0,0,1]],"new":["AA=="],"which":[-1]}}`, "packet -1 was not sent", ""},
		{"No JSON.", "hello", "", "a request is not as the protocol has it: "},
	} {
		var out strings.Builder
		err := Serve(strings.NewReader(test.says), &out, &fake{})
		if got := fmt.Sprint(err); test.err == "" && err != nil || !strings.Contains(got, test.err) {
			t.Errorf("%s %v", test.desc, err)
		}
		if !strings.Contains(out.String(), test.want) {
			t.Errorf("%s says %s", test.desc, out.String())
		}
	}
}
