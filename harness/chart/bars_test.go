package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// The picture is well-formed whatever labels hold, and says in words what it
// shows.
func TestWriteSVG(t *testing.T) {
	b := Bars{
		Title: `A < B & "C"`, Desc: "two groups", Series: []string{"published", "counted"},
		Groups: []Group{
			{"first <b>", []Value{{1, "12 ns", true}, {0.5, "7 instructions", true}}},
			{"second", []Value{{}, {0, "0 instructions", true}}},
		},
	}
	var out strings.Builder
	if err := b.WriteSVG(&out); err != nil {
		t.Fatal(err)
	}
	dec := xml.NewDecoder(strings.NewReader(out.String()))
	counts := map[string]int{}
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, out.String())
		}
		if start, ok := token.(xml.StartElement); ok {
			counts[start.Name.Local]++
		}
	}
	// Background, two marks of the legend, three bars; each bar and the picture
	// have a title.
	if counts["rect"] != 6 || counts["title"] != 4 || counts["desc"] != 1 {
		t.Errorf("elements: %v", counts)
	}
}
