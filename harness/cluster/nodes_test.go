package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kjit-project/kjit/harness/campaign"
)

// Nodes and workers of these tests are processes of their own, that can be killed:
// the test binary, which finds in its environment what it is to be.
const (
	nodeEnv   = "KJIT_TEST_NODE"
	workerEnv = "KJIT_TEST_WORKER"
	startEnv  = "KJIT_TEST_START"
)

func TestMain(m *testing.M) {
	for env, run := range map[string]func(string) error{nodeEnv: beNode, workerEnv: beWorker, startEnv: beStart} {
		if text := os.Getenv(env); text != "" {
			if err := run(text); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// child starts a process of ours, which says "ready" when it is.
func child(t testing.TB, env string, what any) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(what)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe() // it ends with us
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		in.Close()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%s does not start: %q, %v", env, line, err)
	}
	go io.Copy(io.Discard, out)
	return cmd
}

// ready tells who started us, and ends the process when they are gone.
func ready() {
	fmt.Println("ready")
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
}

// node is a server of a cluster; without routes, one that is alone.
type node struct {
	Name          string
	Dir           string
	Client, Route int // ports
	Routes        []string
}

func beNode(text string) error {
	var n node
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return err
	}
	o := &server.Options{
		ServerName: n.Name, Host: "127.0.0.1", Port: n.Client, JetStream: true, StoreDir: n.Dir, NoSigs: true, NoLog: true, DisableJetStreamBanner: true,
	}
	if len(n.Routes) > 0 { // that it advertises no port keeps others from going around the links
		o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: n.Route, Advertise: "127.0.0.1:1", PoolSize: -1, PingInterval: time.Second, MaxPingsOut: 2}
	}
	for _, r := range n.Routes {
		u, err := url.Parse(r)
		if err != nil {
			return err
		}
		o.Routes = append(o.Routes, u)
	}
	s, err := server.NewServer(o)
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		return fmt.Errorf("node %s does not start", n.Name)
	}
	ready()
	s.WaitForShutdown()
	return nil
}

// workerArgs are those of a worker process.
type workerArgs struct {
	URL      string
	Settings campaign.Settings
}

func beWorker(text string) error {
	var a workerArgs
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return err
	}
	cfg, err := campaign.NewConfig(a.Settings)
	if err != nil {
		return err
	}
	ctx := new(Patience).With(context.Background()) // a leader may be missing just now
	nc, err := (&Remote{URLs: a.URL, Name: "worker"}).Connect()
	if err != nil {
		return err
	}
	s, err := Open(ctx, nc, DefaultName)
	if err != nil {
		return err
	}
	w, err := NewWorker(ctx, s, cfg, 1)
	if err != nil {
		return err
	}
	ready()
	return w.Run(ctx, ctx)
}

// link is a route between two nodes that can be cut.
type link struct {
	net.Listener
	to    string
	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
}

func newLink(t testing.TB, to string) *link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &link{Listener: l, to: to, conns: map[net.Conn]bool{}}
	t.Cleanup(func() { l.Close(); k.set(true) })
	go func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", to)
			k.mu.Lock()
			if err != nil || k.cut {
				a.Close()
				if err == nil {
					b.Close()
				}
			} else {
				k.conns[a], k.conns[b] = true, true
				go join(a, b)
			}
			k.mu.Unlock()
		}
	}()
	return k
}

// set cuts the link, or heals it.
func (k *link) set(cut bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cut = cut
	if cut {
		for c := range k.conns {
			c.Close()
			delete(k.conns, c)
		}
	}
}

// nodes is a cluster of three.
type nodes struct {
	t     testing.TB
	node  [3]node
	cmd   [3]*exec.Cmd
	links map[[2]int]*link // from, to
}

// freePort returns a port that nobody has. A node has it again after it was
// killed: so it is none that a system gives to whoever connects to something.
func freePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", 10_000+rand.IntN(20_000)))
		if err == nil {
			defer l.Close()
			return l.Addr().(*net.TCPAddr).Port
		}
	}
	t.Fatal("no port is free")
	return 0
}

func startNodes(t testing.TB) *nodes {
	t.Helper()
	c := &nodes{t: t, links: map[[2]int]*link{}}
	for i := range c.node {
		c.node[i] = node{Name: fmt.Sprint("n", i), Dir: t.TempDir(), Client: freePort(t), Route: freePort(t)}
	}
	for i := range c.node {
		for j := range c.node {
			if i != j {
				k := newLink(t, fmt.Sprint("127.0.0.1:", c.node[j].Route))
				c.links[[2]int{i, j}] = k
				c.node[i].Routes = append(c.node[i].Routes, "nats://"+k.Addr().String())
			}
		}
	}
	for i := range c.node {
		c.start(i)
	}
	return c
}

func (c *nodes) start(i int) { c.cmd[i] = child(c.t, nodeEnv, c.node[i]) }

func (c *nodes) kill(i int) {
	c.cmd[i].Process.Kill()
	c.cmd[i].Wait()
}

// setLink cuts, or heals, the routes between two nodes.
func (c *nodes) setLink(i, j int, cut bool) {
	c.links[[2]int{i, j}].set(cut)
	c.links[[2]int{j, i}].set(cut)
}

func (c *nodes) urls() string {
	var out []string
	for _, n := range c.node {
		out = append(out, fmt.Sprint("nats://127.0.0.1:", n.Client))
	}
	return strings.Join(out, ",")
}

// connect waits until the cluster has a leader.
func (c *nodes) connect() *nats.Conn {
	c.t.Helper()
	nc, err := (&Remote{URLs: c.urls(), Name: "test"}).Connect()
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		c.t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err := js.AccountInfo(ctx)
		cancel()
		if err == nil {
			return nc
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("the cluster has no leader: %v", err)
		}
	}
}
