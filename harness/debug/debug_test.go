package debug

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/repro"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

// jit opens a JIT or mutant.
func jit(t *testing.T, name string) *harness.JIT {
	t.Helper()
	p, err := harness.ProfileByName(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := harness.NewJIT(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// session is one on packets.
func session(t *testing.T, target harness.Imager, prog bpf.Program, packets ...[]byte) *Session {
	t.Helper()
	var inputs []kernelabi.Input
	for _, p := range packets {
		inputs = append(inputs, kernelabi.NewSkb(p))
	}
	s, err := New(Config{Name: "test", Program: prog, Inputs: inputs, Target: target})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// imported is code of somebody else: Image returns it whatever the program.
func imported(t *testing.T, img *kernelabi.Image) harness.Imager {
	t.Helper()
	r, err := harness.NewImage("image", img)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

var (
	packet = []byte{0, 1, 2, 3, 4, 5}

	// isARP loads a halfword, compares and returns.
	isARP = bpf.Program{{Code: bpf.LdHAbs, K: 4}, {Code: bpf.JeqK, JF: 1, K: 0x0405}, {Code: bpf.RetK, K: 7}, {Code: bpf.RetK}}

	// masks shows the fault x86-and-imm16 at instruction 1, three later.
	masks = bpf.Program{
		{Code: bpf.LdImm, K: 0xffffffff}, {Code: bpf.AndK, K: 0xffff0000},
		{Code: bpf.St, K: 2}, {Code: bpf.LdxImm, K: 1}, {Code: bpf.LdMem, K: 2}, {Code: bpf.RetA},
	}
)

func TestStepsFollow(t *testing.T) {
	for _, name := range []string{"linux-3.0-x86_64", "linux-3.10-x86_64", "inline-x86_64", "linux-4.5-armv5", "linux-4.5-armv7"} {
		s := session(t, jit(t, name), isARP, packet)
		var got []int
		for {
			st := s.State()
			if used(st.Differences) != nil {
				t.Errorf("%s at %+v has the differences %+v", name, st.Cursor, st.Differences)
			}
			if !st.Together {
				t.Errorf("%s at %+v: the code does not follow", name, st.Cursor)
			}
			if st.Ended {
				if !st.NativeEnded || !s.Ended() {
					t.Errorf("%s: the code does not return with the program", name)
				}
				break
			}
			if want := s.Image.PCMap[st.BPF.PC]; st.Step.Offset != want {
				t.Errorf("%s: instruction %d has the code at %#x, want %#x", name, st.BPF.PC, st.Step.Offset, want)
			}
			got = append(got, st.BPF.PC)
			s.Step(1)
		}
		if diff := cmp.Diff([]int{0, 1, 2}, got); diff != "" {
			t.Errorf("%s executes (-want +got):\n%s", name, diff)
		}
		r := s.Recording()
		if r.Got.Value != 7 || r.Want.Value != 7 || r.Divergence != nil {
			t.Errorf("%s: %v, %v, %+v", name, r.Got, r.Want, r.Divergence)
		}
		// The way back is the same, one native instruction at a time, and begins
		// in front of the prologue.
		last := len(isARP)
		for moment := len(r.Steps) - 1; moment >= 0; moment-- {
			s.StepNative(-1)
			st := s.State()
			if st.Cursor.Native != moment || st.BPF.PC > last {
				t.Fatalf("%s: step back to %+v, instruction %d after %d", name, st.Cursor, st.BPF.PC, last)
			}
			last = st.BPF.PC
			if pc := s.Image.PCAt(st.Step.Offset); pc >= 0 && pc != st.BPF.PC && pc < len(isARP)-1 {
				t.Errorf("%s at %+v: code of instruction %d, program at %d", name, st.Cursor, pc, st.BPF.PC)
			}
		}
		if at := s.Cursor(); at != (Cursor{}) {
			t.Errorf("%s: the way back ends at %+v", name, at)
		}
	}
}

func TestMoves(t *testing.T) {
	s := session(t, jit(t, "linux-3.10-x86_64"), isARP, packet, packet[:2])
	at := func(pc int) Cursor { return Cursor{pc, s.record.nativeAt[pc]} }
	end := Cursor{3, len(s.record.Steps)}
	step := func(n int) func() error { return func() error { s.Step(n); return nil } }
	for _, tt := range []struct {
		desc string
		do   func() error
		want Cursor
		err  string
	}{
		{"A step goes to the next instruction.", step(1), at(1), ""},
		{"A step back goes to the one before.", step(-1), at(0), ""},
		{"A step back at the start stays there.", step(-5), at(0), ""},
		{"Far too many steps end at the end.", step(int(^uint(0) >> 1)), end, ""},
		{"As many back end at the start.", step(-int(^uint(0)>>1) - 1), at(0), ""},
		{"An instruction ahead is run to.", func() error { return s.ToPC(2) }, at(2), ""},
		{"One before is gone back to.", func() error { return s.ToPC(1) }, at(1), ""},
		{"One that is not executed is an error.", func() error { return s.ToPC(3) }, at(1), "instruction 3 is not executed on this input"},
		{"One that there is not is an error.", func() error { return s.ToPC(4) }, at(1), "no instruction 4: the program has 0 to 3"},
		{"The code's own offset takes the program along.", func() error { return s.ToOffset(s.Image.PCMap[2]) }, at(2), ""},
		{"The prologue is before the first instruction.", func() error { return s.ToOffset(0) }, Cursor{0, 0}, ""},
		{"An offset inside an instruction is an error.", func() error { return s.ToOffset(2) }, Cursor{0, 0}, "no instruction starts at 0x2: the code has"},
		{"Code that is not executed is an error.", func() error { return s.ToOffset(s.Image.PCMap[3]) }, Cursor{0, 0}, "is not executed on this input"},
		{"There is no divergence to go to.", func() error {
			if s.ToDivergence() {
				t.Error("there is a divergence")
			}
			return nil
		}, Cursor{0, 0}, ""},
		{"The end is the end of both.", func() error { s.End(); return nil }, end, ""},
		{"The start is behind the prologue.", func() error { s.Start(); return nil }, at(0), ""},
		{"An input that there is not is an error.", func() error { return s.Select(2) }, at(0), "no input 3: there are 1 to 2"},
	} {
		err := tt.do()
		if s.Cursor() != tt.want {
			t.Errorf("%s It is at %+v, want %+v", tt.desc, s.Cursor(), tt.want)
		}
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s The error is %v, want %q", tt.desc, err, tt.err)
		}
	}
	if err := s.Select(1); err != nil {
		t.Fatal(err)
	}
	// The load of the short packet fails, in a routine that does not come back.
	s.Step(1)
	if st := s.State(); !st.Ended || !st.NativeEnded || s.Recording().Want.Value != 0 || len(st.Differences) > 0 {
		t.Errorf("after a load that fails: %+v", st)
	}
}

func TestBreakpoints(t *testing.T) {
	s := session(t, jit(t, "linux-3.10-x86_64"), isARP, packet)
	inside := s.record.Steps[s.record.nativeAt[1]+1].Offset // in the code of instruction 1
	for _, tt := range []struct {
		desc    string
		pcs     []int
		offsets []int
		want    []Stop
	}{
		{"Without breakpoints it runs to the end.", nil, nil, []Stop{{-1, -1, true}}},
		{"It stops at an instruction.", []int{2}, nil, []Stop{{2, -1, false}, {-1, -1, true}}},
		{"It stops in the code.", nil, []int{inside}, []Stop{{-1, inside, false}, {-1, -1, true}}},
		{"The first of both sides counts.", []int{1, 2}, []int{inside}, []Stop{{1, -1, false}, {-1, inside, false}, {2, -1, false}, {-1, -1, true}}},
		{"Both at one moment are met at once.", []int{1}, []int{s.Image.PCMap[1]}, []Stop{{1, s.Image.PCMap[1], false}, {-1, -1, true}}},
		{"What is not executed is not stopped at.", []int{3}, []int{s.Image.PCMap[3]}, []Stop{{-1, -1, true}}},
	} {
		s.Breaks.Clear()
		s.Start()
		for _, pc := range tt.pcs {
			if err := s.BreakPC(pc, true); err != nil {
				t.Fatal(err)
			}
		}
		for _, off := range tt.offsets {
			if err := s.BreakOffset(off, true); err != nil {
				t.Fatal(err)
			}
		}
		var got []Stop
		for range tt.want {
			got = append(got, s.Continue())
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.desc, diff)
		}
		if !s.Ended() {
			t.Errorf("%s It is not at the end but at %+v", tt.desc, s.Cursor())
		}
	}
	s.BreakPC(2, true)
	if s.BreakPC(2, false); s.Breaks.PC(2) || s.BreakPC(4, true) == nil || s.BreakOffset(1<<20, true) == nil {
		t.Errorf("breakpoints: %+v", s.Breaks)
	}
}

func TestDivergence(t *testing.T) {
	s := session(t, jit(t, "mutant:x86-and-imm16"), masks, packet)
	r := s.Recording()
	if r.Verdict != harness.Diverge || !s.ToDivergence() {
		t.Fatalf("verdict %s", r.Verdict)
	}
	d := r.Divergence
	if d.PC != 1 || d.What != "A" || d.Want != 0xffff0000 || d.Got != 0xffff0200 || d.Undefined {
		t.Errorf("divergence %+v", d)
	}
	if want := "at instruction 1: after it A is 0xffff0200, the interpreter has 0xffff0000"; s.Story(d) != want {
		t.Errorf("story %q, want %q", s.Story(d), want)
	}
	st := s.State()
	if st.BPF.PC != 2 || st.Differs("A") == nil || st.Differs("X") != nil && st.Differs("X").Used {
		t.Errorf("at the divergence: %+v", st)
	}
	// From the store on the cell differs, and A until it is loaded again only in
	// what nobody reads.
	s.Step(1)
	if st := s.State(); st.Differs("A") == nil || st.Differs("A").Used || st.Differs("M[2]") == nil || !st.Differs("M[2]").Used || st.Stored != 1<<2 {
		t.Errorf("behind the store: %+v", st.Differences)
	}
	s.End()
	if st := s.State(); len(st.Differences) != 1 || st.Differences[0].What != harness.End || !strings.Contains(st.Differences[0].How, "the code returns 4294902272") {
		t.Errorf("at the end: %+v", st.Differences)
	}
}

// In a JIT that is right nothing differs that is used, at no moment; in every
// finding the divergence is where the harness has it.
func TestAgreesWithLocate(t *testing.T) {
	findings, err := corpus.Findings()
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range findings {
		if testing.Short() && i%4 > 0 {
			continue
		}
		rep, err := repro.Parse(f.Name, f.Data)
		if err != nil {
			t.Fatal(err)
		}
		runner, err := rep.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer runner.Close()
		c := Config{Program: rep.Program, Kind: rep.Kind, Inputs: []kernelabi.Input{rep.Input}, Target: runner.(harness.Imager)}
		if rep.Accesses {
			c.Options = append(c.Options, emulator.WithAccessChecks())
		}
		s, err := New(c)
		if err != nil {
			t.Errorf("%s: %v", f.Name, err)
			continue
		}
		defer s.Close()
		r := s.Recording()
		if s.NoCode != "" {
			if rep.Divergence != "refusal" {
				t.Errorf("%s: no code: %s", f.Name, s.NoCode)
			}
			continue
		}
		if rep.Expect == repro.Agree {
			if r.Divergence != nil {
				t.Errorf("%s: %s", f.Name, s.Story(r.Divergence))
			}
			continue
		}
		place, err := harness.Locate(runner, rep.Program, rep.Input)
		if err != nil {
			t.Fatal(err)
		}
		switch d := r.Divergence; {
		case d == nil:
			t.Errorf("%s: no divergence, want one at instruction %d: %s", f.Name, place.PC, place.How)
		case d.PC != place.PC, d.What != place.What && place.What != harness.End:
			t.Errorf("%s: divergence at %d (%s), want %d (%s)", f.Name, d.PC, s.Story(d), place.PC, place.How)
		}
	}
}

func TestCorpusHasNoDivergences(t *testing.T) {
	seed := uint64(rand.Uint32())
	if text := os.Getenv("KJIT_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	t.Logf("KJIT_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	programs, err := corpus.Programs()
	if err != nil {
		t.Fatal(err)
	}
	packets, err := corpus.Packets()
	if err != nil {
		t.Fatal(err)
	}
	recorded := 0
	for _, name := range []string{"linux-3.10-x86_64", "inline-x86_64", "linux-4.5-armv5", "linux-4.5-armv7"} {
		target := jit(t, name)
		for _, p := range programs {
			if rng.IntN(4) > 0 {
				continue // a machine for each is slow
			}
			c := Config{Program: p.Program, Kind: p.Kind, Target: target}
			if p.Kind == bpf.Socket {
				for range 6 {
					c.Inputs = append(c.Inputs, packets[rng.IntN(len(packets))].Skb)
				}
			} else if c.Inputs, err = harness.DefaultInputs(p.Program, p.Kind); err != nil {
				t.Fatal(err)
			}
			s, err := New(c)
			if err != nil {
				if !p.RefusedBy(target.Profile().Rules) {
					t.Errorf("%s, %s: %v", p.Name, name, err)
				}
				continue
			}
			for i := range min(len(c.Inputs), 6) {
				if err := s.Select(i); err != nil {
					t.Fatal(err)
				}
				recorded++
				if r := s.Recording(); r.OnTheWay() {
					t.Errorf("%s, %s, input %d: %s", p.Name, name, i, s.Story(r.Divergence))
				}
			}
			s.Close()
		}
	}
	t.Logf("%d recordings", recorded)
}

func TestLoads(t *testing.T) {
	skb := kernelabi.NewSkb(append(make([]byte, 14), 0x45, 1, 2, 3))
	for _, tt := range []struct {
		desc string
		prog bpf.Program
		want []Load
	}{
		{"A word is four bytes.", bpf.Program{{Code: bpf.LdWAbs, K: 12}, {Code: bpf.RetA}}, []Load{{12, 4}, {}}},
		{"An indirect load counts X.", bpf.Program{{Code: bpf.LdxMsh, K: 14}, {Code: bpf.LdBInd, K: 0xfffffffd}, {Code: bpf.RetA}}, []Load{{14, 1}, {17, 1}, {}}},
		{"A load from the network header is one of the packet.", bpf.Program{{Code: bpf.LdHAbs, K: bpf.NetOff + 2}, {Code: bpf.RetA}}, []Load{{16, 2}, {}}},
		{"So is one from the link-layer header.", bpf.Program{{Code: bpf.LdBAbs, K: bpf.LLOff + 1}, {Code: bpf.RetA}}, []Load{{1, 1}, {}}},
		{"An ancillary load reads no bytes.", bpf.Program{{Code: bpf.LdHAbs, K: 0xfffff000}, {Code: bpf.RetA}}, []Load{{}, {}}},
		{"A load that fails reads none.", bpf.Program{{Code: bpf.LdWAbs, K: 16}, {Code: bpf.RetA}}, []Load{{}}},
	} {
		s, err := New(Config{Program: tt.prog, Inputs: []kernelabi.Input{skb}, Target: jit(t, "inline-x86_64")})
		if err != nil {
			t.Fatalf("%s %v", tt.desc, err)
		}
		if diff := cmp.Diff(tt.want, s.Recording().Loads); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.desc, diff)
		}
		s.Step(1)
		if got := s.State().Load; got != tt.want[0] {
			t.Errorf("%s The last load is %v", tt.desc, got)
		}
		s.Close()
	}
	call := &kernelabi.Syscall{Data: seccompdata.Data{Nr: 39}}
	prog := bpf.Program{{Code: bpf.LdWAbs, K: 4}, {Code: bpf.RetA}}
	s, err := New(Config{Program: prog, Kind: bpf.Seccomp, Inputs: []kernelabi.Input{call}, Target: jit(t, "linux-4.5-armv7")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if r := s.Recording(); r.Loads[0] != (Load{4, 4}) || len(r.Bytes) != seccompdata.Size {
		t.Errorf("a system call has %d bytes, of which %v is loaded", len(r.Bytes), r.Loads[0])
	}
}

func TestCallsAreNamed(t *testing.T) {
	for name, want := range map[string]string{
		"linux-3.10-x86_64": "sk_load_half", "linux-4.5-armv5": "jit_get_skb_h", "linux-4.5-armv7": "jit_get_skb_h",
	} {
		// A fragment is what the code leaves to the kernel.
		skb := kernelabi.NewSkb(packet).Split(2)
		s, err := New(Config{Program: isARP, Inputs: []kernelabi.Input{skb}, Target: jit(t, name)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var got []string
		for i := range s.Recording().Steps {
			if call := s.Recording().Steps[i].Call; call != "" {
				got = append(got, call)
			}
		}
		if len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s calls %q, want %s", name, got, want)
		}
	}
}

func TestImages(t *testing.T) {
	ours, err := jit(t, "mutant:x86-and-imm16").Image(masks, bpf.Socket)
	if err != nil {
		t.Fatal(err)
	}
	bare := *ours
	bare.PCMap, bare.Cells = nil, nil
	s := session(t, imported(t, &bare), masks, packet)
	// Without a map the sides are stepped apart, and the difference shows when
	// both have ended.
	if s.Mapped() {
		t.Error("an image without a map is mapped")
	}
	s.Step(2)
	s.StepNative(1)
	if c := s.Cursor(); c != (Cursor{2, 1}) || len(s.State().Differences) > 0 || s.State().Together {
		t.Errorf("stepped apart: %+v", s.State())
	}
	if d := s.Recording().Divergence; d == nil || d.What != harness.End || d.PC != -1 || !s.ToDivergence() || !s.Ended() {
		t.Errorf("divergence %+v", d)
	}
	s.Start()
	s.BreakPC(3, true)
	if stop := s.Continue(); stop.PC != 3 || s.Cursor().BPF != 3 || s.Cursor().Native != len(s.Recording().Steps) {
		t.Errorf("run to %+v, %+v", stop, s.Cursor())
	}
	mapped := bare
	mapped.PCMap = ours.PCMap
	s = session(t, imported(t, &mapped), masks, packet)
	if d := s.Recording().Divergence; d == nil || d.PC != 1 || d.What != "A" {
		t.Errorf("with a map: %+v", d)
	}
	// In registers of their own A and X are not seen, but the way is.
	other := mapped
	other.OtherRegisters = true
	s = session(t, imported(t, &other), masks, packet)
	if d := s.Recording().Divergence; d == nil || d.What != harness.End || d.PC != 5 {
		t.Errorf("with other registers: %+v", d)
	}
}

func TestWildCode(t *testing.T) {
	// Linux 3.0 fills in the jump of a division by zero wrongly.
	wild := bpf.Program{{Code: bpf.LdImm, K: 10}, {Code: bpf.LdxImm}, {Code: bpf.DivX}, {Code: bpf.JeqK, JF: 1, K: 10}, {Code: bpf.RetK, K: 5}, {Code: bpf.RetK}}
	s := session(t, jit(t, "linux-3.0-x86_64"), wild, packet)
	d := s.Recording().Divergence
	if d == nil || d.PC != 2 || !strings.Contains(s.Story(d), "the code has a fault: breakpoint") || s.Recording().Got.Kind != harness.Fault {
		t.Fatalf("divergence %+v", d)
	}
	s.End()
	if !s.State().NativeEnded {
		t.Error("a fault is no end")
	}

	loop, err := jit(t, "inline-x86_64").Image(isARP, bpf.Socket)
	if err != nil {
		t.Fatal(err)
	}
	endless := *loop
	endless.Code = append([]byte{}, loop.Code...)
	copy(endless.Code[loop.PCMap[1]:], []byte{0xeb, 0xfe}) // jmp to itself
	s = session(t, imported(t, &endless), isARP, packet)
	r := s.Recording()
	if !r.Cut || r.Got.Kind != harness.Timeout || len(r.Steps) > maxSteps || r.Divergence == nil || r.Divergence.PC != 1 {
		t.Errorf("code that loops: %d steps, %v, %+v", len(r.Steps), r.Got, r.Divergence)
	}
}

func TestOnlyProgram(t *testing.T) {
	// Linux 3.10 compiles no seccomp filters for x86_64.
	prog := bpf.Program{{Code: bpf.LdWAbs}, {Code: bpf.RetK, K: 0x7fff0000}}
	s, err := New(Config{Program: prog, Kind: bpf.Seccomp, Inputs: []kernelabi.Input{&kernelabi.Syscall{}}, Target: jit(t, "linux-3.10-x86_64")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Image != nil || s.NoCode == "" || s.Mapped() {
		t.Fatalf("there is code: %+v", s.Image)
	}
	s.Step(1)
	st := s.State()
	if st.BPF.PC != 1 || st.Step != nil || st.Differences != nil || s.Recording().Divergence != nil {
		t.Errorf("state %+v", st)
	}
	if err := s.ToOffset(0); err == nil || !strings.Contains(err.Error(), "there is no code: not compiled") {
		t.Errorf("error %v", err)
	}
	s.BreakPC(1, true)
	s.Start()
	if stop := s.Continue(); stop.PC != 1 {
		t.Errorf("run to %+v", stop)
	}
	if stop := s.Continue(); !stop.End || !s.Ended() {
		t.Errorf("run to %+v", stop)
	}
}

func TestNewRefuses(t *testing.T) {
	target := jit(t, "linux-3.10-x86_64")
	inputs := []kernelabi.Input{kernelabi.NewSkb(packet)}
	for _, tt := range []struct {
		desc   string
		config Config
		want   string
	}{
		{"A program that the kernel refuses is one.", Config{Program: bpf.Program{{Code: bpf.LdImm}}, Inputs: inputs, Target: target}, "instruction 0"},
		{"Nothing to run on is another.", Config{Program: isARP, Target: target}, "no inputs"},
		{"And nothing to run.", Config{Program: isARP, Inputs: inputs}, "no target"},
	} {
		if _, err := New(tt.config); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s The error is %v, want %q", tt.desc, err, tt.want)
		}
	}
}
