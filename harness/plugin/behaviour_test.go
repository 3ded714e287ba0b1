package plugin

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/kernelabi"
)

// The test binary is also the plugin under test: its first argument then names
// how it misbehaves.
const behaviourPrefix = "behave:"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if name, ok := strings.CutPrefix(os.Args[1], behaviourPrefix); ok {
			behave(name)
			return
		}
	}
	os.Exit(m.Run())
}

// command is the command line of a plugin that behaves so.
func command(t testing.TB, behaviour string) []string {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{self, behaviourPrefix + behaviour}
}

const goodHello = `{"id":0,"protocol":1,"name":"test","archs":["x86_64"]}`

// behave is a plugin. Behaviours "hello TEXT" answer hello with TEXT; those in
// behaviours answer hello well and then do as their name says.
func behave(name string) {
	in := bufio.NewReader(os.Stdin)
	in.ReadString('\n')
	if text, ok := strings.CutPrefix(name, "hello "); ok {
		fmt.Println(text)
		in.ReadString('\n')
		return
	}
	if name == "exits before hello" {
		fmt.Fprintln(os.Stderr, "no licence")
		os.Exit(9)
	}
	if name == "other name each time" {
		fmt.Printf(`{"id":0,"protocol":1,"name":"p%d","archs":["x86_64"]}`+"\n", os.Getpid())
	} else {
		fmt.Println(goodHello)
	}
	if name == "does not read" {
		time.Sleep(time.Minute)
	}
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		var q struct {
			ID      uint64
			Program bpf.Program
		}
		json.Unmarshal([]byte(line), &q)
		if answer, ok := strings.CutPrefix(name, "answer "); ok {
			fmt.Println(strings.ReplaceAll(answer, "ID", fmt.Sprint(q.ID)))
			continue
		}
		behaviours[name](q.ID, q.Program[len(q.Program)-1].K)
	}
}

// behaviours answer a request to compile ret #k.
var behaviours = map[string]func(id uint64, k uint32){
	"works":                correct,
	"other name each time": func(uint64, uint32) { os.Exit(1) },
	"sleeps":               func(uint64, uint32) { time.Sleep(time.Minute) },
	"exits": func(uint64, uint32) {
		fmt.Fprintln(os.Stderr, "first\n\x1b[31mit is too late")
		os.Exit(3)
	},
	"exits at k = 1": func(id uint64, k uint32) {
		if k == 1 {
			os.Exit(3)
		}
		correct(id, k)
	},
	"signal": func(uint64, uint32) { syscall.Kill(os.Getpid(), syscall.SIGTERM); time.Sleep(time.Minute) },
	"panics": func(uint64, uint32) { panic("no rule") },
	"endless line": func(uint64, uint32) {
		for junk := strings.Repeat("7", 1<<16); ; {
			if _, err := fmt.Print(junk); err != nil {
				return
			}
		}
	},
	"half an answer": func(id uint64, _ uint32) { fmt.Printf(`{"id":%d,"ima`, id); os.Exit(0) },
	"two answers":    func(id uint64, k uint32) { correct(id, k); correct(id, k) },
	"closes its output": func(uint64, uint32) {
		os.Stdout.Close()
		time.Sleep(time.Minute)
	},
	"much on standard error": func(id uint64, k uint32) {
		for range 1000 {
			fmt.Fprintln(os.Stderr, strings.Repeat("x", 1000))
		}
		correct(id, k)
	},
	"large image": func(id uint64, _ uint32) { answerImage(id, strings.Repeat("90", maxImage+1)) },
	"leaves a child": func(id uint64, k uint32) {
		// The child keeps the pipes open.
		child := exec.Command("sleep", "60")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			os.Exit(4)
		}
		fmt.Fprintf(os.Stderr, "child %d\n", child.Process.Pid)
		time.Sleep(100 * time.Millisecond)
		os.Exit(5)
	},
}

func correct(id uint64, k uint32) {
	answerImage(id, fmt.Sprintf("b8%02x%02x%02x%02xc3", byte(k), byte(k>>8), byte(k>>16), byte(k>>24)))
}

func answerImage(id uint64, code string) { fmt.Printf(`{"id":%d,"image":%q}`+"\n", id, code) }

// ret is the program that the plugins of the tests are asked for.
func ret(k uint32) bpf.Program { return bpf.Program{{Code: bpf.RetK, K: k}} }

// long is one that no pipe holds.
func long() bpf.Program {
	var p bpf.Program
	for len(p) < bpf.MaxInsns-1 {
		p = append(p, bpf.Instruction{Code: bpf.LdImm, K: 0xffffffff})
	}
	return append(p, ret(7)...)
}

func open(t testing.TB, behaviour string, limit time.Duration) *Runner {
	t.Helper()
	r, err := New(context.Background(), command(t, behaviour), Options{Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

var onePacket = []kernelabi.Input{kernelabi.NewSkb([]byte{1, 2, 3})}

// outcome runs prog on one packet.
func outcome(t testing.TB, r *Runner, prog bpf.Program) harness.Outcome {
	t.Helper()
	out, err := r.Run(prog, bpf.Socket, onePacket, nil)
	if err != nil || len(out) != 1 {
		t.Fatalf("%d outcomes, error %v", len(out), err)
	}
	return out[0]
}
