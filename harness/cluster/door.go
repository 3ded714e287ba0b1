package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// doorFile tells other processes of this user how to reach an embedded server.
const doorFile = "door.json"

// maxSocketPath is how long the name of a Unix socket can be everywhere.
const maxSocketPath = 100

// doorKey is who comes through the door; the zero value where nobody has to say.
type doorKey struct {
	User     string `json:"user,omitempty"`
	Password string `json:"password,omitempty"`
}

func (k doorKey) option() nats.Option {
	if k.User == "" {
		return func(*nats.Options) error { return nil }
	}
	return nats.UserInfo(k.User, k.Password)
}

// door is a Unix socket that leads to an embedded server: a way in for processes
// of the same user, and no port.
type door struct {
	net.Listener
	file string // doorFile
	temp string // folder of the socket if it is not in the state folder
}

// doorText is the door's file.
type doorText struct {
	Socket string `json:"socket"` // from the state folder, or absolute
	doorKey
}

// openDoor opens the door of a state folder. private is a folder in it that only
// its user can enter.
func openDoor(dir, private string, key doorKey, connect func() (net.Conn, error)) (_ *door, err error) {
	d := &door{file: filepath.Join(dir, doorFile)}
	path, err := filepath.Abs(filepath.Join(private, "door.sock"))
	if err != nil {
		return nil, err
	}
	if len(path) > maxSocketPath {
		if d.temp, err = os.MkdirTemp("", "kjit-"); err != nil {
			return nil, err
		}
		path = filepath.Join(d.temp, "door.sock")
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // of one that was killed
		return nil, err
	}
	if d.Listener, err = net.Listen("unix", path); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	data, err := json.Marshal(doorText{path, key})
	if err != nil {
		return nil, err
	}
	if err := replaceFile(d.file, append(data, '\n'), 0o600); err != nil {
		return nil, err
	}
	go d.welcome(connect)
	return d, nil
}

func (d *door) close() error {
	err := errors.Join(d.Listener.Close(), os.Remove(d.file))
	if d.temp != "" {
		err = errors.Join(err, os.RemoveAll(d.temp))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// welcome joins everybody who comes to the server.
func (d *door) welcome(connect func() (net.Conn, error)) {
	for {
		outside, err := d.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(tick)
			continue
		}
		inside, err := connect()
		if err != nil {
			outside.Close()
			continue
		}
		go join(outside, inside)
	}
}

// join copies both ways until one end is closed.
func join(a, b net.Conn) {
	var both sync.WaitGroup
	one := func(to, from net.Conn) {
		io.Copy(to, from)
		to.Close()
		from.Close()
	}
	both.Go(func() { one(a, b) })
	both.Go(func() { one(b, a) })
	both.Wait()
}

// ErrNotRunning is a state folder whose server does not run.
var ErrNotRunning = errors.New("no kjit campaign start runs on it")

// dialer dials a socket whatever the address.
type dialer struct{ path string }

func (d dialer) Dial(_, _ string) (net.Conn, error) {
	return net.DialTimeout("unix", d.path, 2*time.Second)
}

// DoorError is a door's file that is none.
type DoorError struct {
	File string
	Err  error
}

func (e *DoorError) Error() string { return fmt.Sprintf("%s is damaged: %v", e.File, e.Err) }

func (e *DoorError) Unwrap() error { return e.Err }

// findDoor returns the door of a state folder if there is somebody behind it, or
// ErrNotRunning.
func findDoor(dir string) (text doorText, err error) {
	file := filepath.Join(dir, doorFile)
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return text, fmt.Errorf("%s: %w", dir, ErrNotRunning)
	}
	if err != nil {
		return text, err
	}
	if err := json.Unmarshal(data, &text); err != nil {
		return text, &DoorError{file, err}
	}
	probe, err := dialer{text.Socket}.Dial("", "")
	if err != nil { // of one that was killed
		return text, fmt.Errorf("%s: %w", dir, ErrNotRunning)
	}
	return text, probe.Close()
}

// ConnectFolder connects to the embedded server of a state folder that runs in
// another process, or returns ErrNotRunning.
func ConnectFolder(dir string, opts ...nats.Option) (*nats.Conn, error) {
	text, err := findDoor(dir)
	if err != nil {
		return nil, err
	}
	opts = append(opts, nats.SetCustomDialer(dialer{text.Socket}), text.option(), nats.DontRandomize())
	return nats.Connect("nats://localhost", opts...)
}
