package cluster

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/harness/campaign"
)

// goodMessages are one of each kind.
func goodMessages(t testing.TB) (*Store, [][]byte) {
	t.Helper()
	settings := small(t, 1).Settings
	settings.Size = 2 // short messages, of which a fuzzer can do many
	cfg, err := campaign.NewConfig(settings)
	if err != nil {
		t.Fatal(err)
	}
	s := &Store{Names: Names{DefaultName}, Spec: Spec{cfg.Settings, strings.Repeat("0", 64)}}
	s.id = s.Spec.ID()
	w, err := cfg.NewWorker()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	state := campaign.NewState(&cfg.Settings)
	var out [][]byte
	add := func(what content, v any) {
		body, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		m, _, _ := makeFrame(what, s.id, body)
		out = append(out, m, body)
	}
	for r := range uint64(4) {
		res, err := w.RunRange(context.Background(), state.Frozen(), r)
		if err != nil {
			t.Fatal(err)
		}
		add(contentResult, res)
		if _, err := state.Merge(res); err != nil {
			t.Fatal(err)
		}
	}
	add(contentState, state)
	add(contentSpec, s.Spec)
	add(contentPoison, Poison{3, 5, "died"})
	f := *state.Findings()[0]
	f.Count = 1
	add(contentFinding, Entry{Finding: f, Final: true, Insns: len(f.Program)})
	for _, v := range []any{
		Control{Running, 100}, Heartbeat{ID: "w", JITs: cfg.JITs}, rangeWork{s.id, 3}, shrinkWork{s.id, 4},
		Summary{Time: time.Unix(1, 0).UTC(), Mode: Running, Targets: []TargetSummary{{JIT: "x"}}, History: []Point{{Programs: 1}}},
	} {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, data)
	}
	return s, out
}

// readAny reads a message as everything that one can be, and returns how many took
// it. Nothing may panic, hang, or take much more memory than the message has.
func readAny(s *Store, data []byte) (taken int) {
	bodies := [][]byte{data}
	for what := range maxBody {
		f, packed, err := parseFrame(data, what, "")
		if err != nil {
			continue
		}
		f.Size = min(f.Size, 1<<20) // the fuzzer's time is better spent
		if body, err := f.body(packed); err == nil {
			bodies = append(bodies, body)
		}
	}
	count := func(err error) {
		if err == nil {
			taken++
		}
	}
	c := &s.Spec.Settings
	for _, body := range bodies {
		_, err := parseSpec(body)
		count(err)
		_, err = parseControl(body)
		count(err)
		h, err := parseHeartbeat(body)
		count(err)
		h.Fits(&s.Spec)
		sum, err := parseSummary(body)
		count(err)
		sparkless := addPoint(sum.History, Point{Programs: 1})
		_ = sparkless
		_, err = parseState(body, c)
		count(err)
		_, err = campaign.ParseResult(body, c)
		count(err)
		var (
			r rangeWork
			k shrinkWork
			p Poison
		)
		count(decode(body, maxHead, &r))
		count(decode(body, maxHead, &k))
		count(decode(body, maxSmall, &p))
		e := new(Entry)
		if err = decode(body, len(body), e); err == nil {
			err = e.Validate(c)
		}
		count(err)
	}
	_, err := s.parseEntry(keyOf(knownSignature), data)
	count(err)
	_, _, ok := s.parseResult(string(data))
	_, ok2 := s.parseEpoch(string(data))
	if ok || ok2 {
		taken++
	}
	return taken
}

func TestMessages(t *testing.T) {
	s, good := goodMessages(t)
	for _, m := range good {
		if readAny(s, m) == 0 {
			t.Errorf("nobody takes %.100q", m)
		}
		for n := range min(len(m), 200) {
			readAny(s, m[:n*len(m)/200])
		}
	}
}

func FuzzMessage(f *testing.F) {
	s, good := goodMessages(f)
	for _, m := range good {
		f.Add(m)
	}
	f.Add([]byte("kjit.main.result.1.4"))
	f.Add([]byte("kjit.main.epoch.01"))
	f.Fuzz(func(t *testing.T, data []byte) { readAny(s, data) })
}

// Long bodies go in parts, and come back from them.
func TestParts(t *testing.T) {
	cfg := small(t, 1)
	_, nc := embedded(t, t.TempDir(), cfg)
	store := begin(t, nc, cfg, 1, 0)
	body := make([]byte, 3<<20)
	x := uint64(1)
	for i := range body { // nothing that packs well
		x = x*6364136223846793005 + 1442695040888963407
		body[i] = byte(x >> 56)
	}
	subject := store.epoch(2)
	if err := store.put(t.Context(), subject, contentState, body, 2); err != nil {
		t.Fatal(err)
	}
	got, _, err := store.get(t.Context(), store.state, subject, contentState)
	if err != nil || string(got) != string(body) {
		t.Fatalf("%d bytes came back, %v", len(got), err)
	}
	_, parts, f := makeFrame(contentState, store.id, body)
	if len(parts) < 2 {
		t.Fatalf("%d parts", len(parts))
	}
	m, err := store.last(t.Context(), store.blobs, store.blob(2, f.Sum, 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := store.delete(t.Context(), store.blobs, m.Sequence); err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.get(t.Context(), store.state, subject, contentState); !isBad(err) {
		t.Errorf("with a part missing: %v", err)
	}
	if err := store.publish(t.Context(), store.blob(2, f.Sum, 1), []byte("junk")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.get(t.Context(), store.state, subject, contentState); !isBad(err) {
		t.Errorf("with a part that is junk: %v", err)
	}
	// Whoever writes it again mends it.
	if err := store.putPart(t.Context(), store.blob(2, f.Sum, 1), parts[1]); err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.get(t.Context(), store.state, subject, contentState); err != nil {
		t.Error(err)
	}
}

func TestNames(t *testing.T) {
	n := Names{"main"}
	for _, test := range []struct {
		subject  string
		epoch, r uint64
		ok       bool
	}{
		{n.result(3, 99), 3, 99, true},
		{"kjit.main.result.3.099", 0, 0, false},
		{"kjit.main.result.3.-1", 0, 0, false},
		{"kjit.main.result.3", 0, 0, false},
		{"kjit.main.result.3.4.5", 0, 0, false},
		{"kjit.other.result.3.4", 0, 0, false},
		{"kjit.main.result.3.18446744073709551615", 0, 0, false},
	} {
		epoch, r, ok := n.parseResult(test.subject)
		if ok != test.ok || ok && (epoch != test.epoch || r != test.r) {
			t.Errorf("%s: %d, %d, %v", test.subject, epoch, r, ok)
		}
	}
	for _, name := range []string{"", "a.b", "a b", "*", ">", "é", strings.Repeat("x", 33)} {
		if (Names{name}).Validate() == nil {
			t.Errorf("%q is taken for a name", name)
		}
	}
}

func TestHistory(t *testing.T) {
	var h []Point
	began := time.Unix(0, 0)
	for i := range uint64(5000) {
		h = addPoint(h, Point{Time: began.Add(time.Duration(i) * time.Second), Programs: i / 2, Covered: int(math.Sqrt(float64(i)))})
	}
	if len(h) > maxHistory || len(h) < maxHistory/2 || h[0].Programs != 0 || h[len(h)-1].Programs != 2499 {
		t.Errorf("%d points from %+v to %+v", len(h), h[0], h[len(h)-1])
	}
	var m meter
	for i := range uint64(100) {
		got := m.rate(began.Add(time.Duration(i)*time.Second), 50*i)
		if diff := cmp.Diff(50.0, got); i > 0 && diff != "" {
			t.Fatalf("second %d:\n%s", i, diff)
		}
	}
}
