package cluster

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// What a frame can have in it.
type content string

const (
	contentSpec    content = "spec"
	contentState   content = "state"
	contentResult  content = "result"
	contentPoison  content = "poison"
	contentFinding content = "finding"
)

// Bounds in bytes. A body is what a frame has in it when it is unpacked.
const (
	maxMessage = 900 << 10 // of a message: below what servers allow by default
	maxHead    = 1 << 10
	maxInline  = 256 << 10 // packed; what is longer goes in parts
	maxPart    = 512 << 10
	maxParts   = 512
)

var maxBody = map[content]int64{
	contentSpec:    64 << 10,
	contentState:   256 << 20,
	contentResult:  64 << 20,
	contentPoison:  64 << 10,
	contentFinding: 8 << 20,
}

// frame is the first line of a message: what comes behind it, or in parts.
type frame struct {
	Content content `json:"content"`
	ID      string  `json:"id"`   // of the campaign, see Spec.ID
	Size    int64   `json:"size"` // of the body
	Sum     string  `json:"sum"`  // SHA-256 of the body
	Parts   int     `json:"parts,omitempty"`
}

// badMessage is what came from the network and is not what it should be.
type badMessage struct{ error }

func bad(format string, args ...any) error { return badMessage{fmt.Errorf(format, args...)} }

// isBad reports whether an error is about what a message says, not about getting it.
func isBad(err error) bool {
	var b badMessage
	return errors.As(err, &b)
}

var packers = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(nil, flate.BestSpeed) // the level is one of those there are
	return w
}}

// Pack packs a body as messages have it.
func Pack(body []byte) []byte {
	var b bytes.Buffer
	w := packers.Get().(*flate.Writer)
	defer packers.Put(w)
	w.Reset(&b)
	w.Write(body) // a buffer takes everything
	w.Close()
	return b.Bytes()
}

// Unpack unpacks a body of exactly that size in bytes.
func Unpack(packed []byte, size int64) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(int(min(size, 4<<20))) // not more than was sent is believed at once
	r := flate.NewReader(bytes.NewReader(packed))
	n, err := io.Copy(&b, io.LimitReader(r, size+1))
	switch {
	case err != nil:
		return nil, bad("it cannot be unpacked: %w", err)
	case n != size:
		return nil, bad("it is not of %d bytes as it says", size)
	}
	return b.Bytes(), nil
}

// newFrame makes the first line of a message, and what comes behind it.
func newFrame(what content, id string, body []byte) (f frame, packed []byte) {
	sum := sha256.Sum256(body)
	return frame{Content: what, ID: id, Size: int64(len(body)), Sum: hex.EncodeToString(sum[:])}, Pack(body)
}

// message puts the two together.
func (f *frame) message(packed []byte) []byte {
	head, err := json.Marshal(f)
	if err != nil {
		panic(err) // strings and numbers
	}
	return append(append(head, '\n'), packed...)
}

// makeFrame makes a message of a body, and parts if it is long.
func makeFrame(what content, id string, body []byte) (message []byte, parts [][]byte, f frame) {
	f, packed := newFrame(what, id, body)
	if len(packed) > maxInline {
		for rest := packed; len(rest) > 0; {
			n := min(len(rest), maxPart)
			parts = append(parts, rest[:n])
			rest = rest[n:]
		}
		f.Parts, packed = len(parts), nil
	}
	return f.message(packed), parts, f
}

// parseFrame reads the first line of a message that should have such content in
// the campaign of that ID ("": in any).
func parseFrame(message []byte, what content, id string) (f frame, packed []byte, err error) {
	if len(message) > maxMessage {
		return f, nil, bad("a message of %d bytes: at most %d", len(message), maxMessage)
	}
	head, packed, ok := bytes.Cut(message, []byte("\n"))
	if !ok || len(head) > maxHead {
		return f, nil, bad("it is no message of kjit")
	}
	if err := decode(head, maxHead, &f); err != nil {
		return f, nil, err
	}
	switch {
	case f.Content != what:
		return f, nil, bad("a %q where a %s should be", f.Content, what)
	case id != "" && f.ID != id:
		return f, nil, bad("it is of campaign %.16q, this one is %s", f.ID, id)
	case f.Size < 0 || f.Size > maxBody[what]:
		return f, nil, bad("a %s of %d bytes: at most %d", what, f.Size, maxBody[what])
	case len(f.Sum) != 2*sha256.Size || f.Parts < 0 || f.Parts > maxParts || f.Parts > 0 && len(packed) > 0:
		return f, nil, bad("a %s whose first line makes no sense", what)
	}
	if _, err := hex.DecodeString(f.Sum); err != nil {
		return f, nil, bad("the sum of a %s is none", what)
	}
	return f, packed, nil
}

// body unpacks what came behind the first line, or in parts.
func (f *frame) body(packed []byte) ([]byte, error) {
	body, err := Unpack(packed, f.Size)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != f.Sum {
		return nil, bad("a %s with another sum than it says", f.Content)
	}
	return body, nil
}

// decode reads one JSON value and nothing else.
func decode(data []byte, most int, v any) error {
	if len(data) > most {
		return bad("%d bytes: at most %d", len(data), most)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return bad("it is not what it should be: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return bad("there is something behind it")
	}
	return nil
}
