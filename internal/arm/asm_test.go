package arm

import (
	"encoding/hex"
	"strings"
	"testing"
)

func TestAsm(t *testing.T) {
	var a Asm
	end := a.NewLabel()
	loop := a.Here()
	a.AluS(AL, Sub, R0, R0, Imm(1))
	a.Branch(EQ, end)
	a.Call(AL, 0xbf000100)
	a.CallLabel(NE, loop)
	a.Branch(AL, loop)
	a.Bind(end)
	a.Const(AL, R1, 0xff)
	a.Const(AL, R1, 0xffffefff)
	a.Const(AL, R2, 0x12345678)
	a.Const(AL, R3, 0xc0700100)
	a.Const(AL, R4, 0x12345678)
	a.Bx(AL, LR)
	code, err := a.Bytes(0xbf000000)
	if err != nil {
		t.Fatal(err)
	}
	want := "010050e2" + "0200000a" + "3c0000eb" + "fbffff1b" + "faffffea" +
		"ff10a0e3" + "011ae0e3" + "08209fe5" + "08309fe5" + "00409fe5" + "1eff2fe1" +
		"78563412" + "000170c0"
	if got := hex.EncodeToString(code); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if _, err := a.Bytes(0xc7000000); err == nil || !strings.Contains(err.Error(), "32 MiB") {
		t.Errorf("a call farther than 32 MiB gave error %v", err)
	}
	a.Reset()
	a.Branch(AL, a.NewLabel())
	if _, err := a.Bytes(0); err == nil || !strings.Contains(err.Error(), "bound nowhere") {
		t.Errorf("a branch to an unbound label gave error %v", err)
	}
}

func TestPool(t *testing.T) {
	var a Asm
	a.Const(AL, R0, 0x12345678)
	for range 1024 {
		a.Nop()
	}
	if _, err := a.Bytes(0); err != nil {
		t.Errorf("a constant 0xffc bytes away gave error %v", err)
	}
	a.Reset()
	a.Const(AL, R0, 0x12345678)
	for range 1025 {
		a.Nop()
	}
	if _, err := a.Bytes(0); err == nil || !strings.Contains(err.Error(), "put a pool nearer") {
		t.Errorf("a constant 0x1000 bytes away gave error %v", err)
	}
	a.Reset()
	a.Const(AL, PC, 0x12345678)
	code, err := a.Bytes(0)
	if want := "04f01fe5" + "78563412"; err != nil || hex.EncodeToString(code) != want {
		t.Errorf("a pool right behind the load: got %x, error %v, want %s", code, err, want)
	}
}

// Every 8-bit value rotated by an even count has an encoding that gives it
// back, with the smallest rotation; other values have none.
func TestImmOp2(t *testing.T) {
	rotate := func(v uint32, n int) uint32 { return v>>n | v<<(32-n) }
	smallest := map[uint32]int{}
	for r := 15; r >= 0; r-- {
		for v := range uint32(256) {
			smallest[rotate(v, 2*r)] = r
		}
	}
	for v, r := range smallest {
		op, ok := ImmOp2(v)
		if !ok {
			t.Fatalf("%#x has no encoding", v)
		}
		if got := rotate(uint32(op)&0xff, int(op>>8&15)*2); got != v || int(op>>8&15) != r {
			t.Fatalf("%#x is encoded as %#x: value %#x, want rotation %d", v, op, got, r)
		}
	}
	for _, v := range []uint32{0x101, 0x1fe, 0x1ff, 0xf000001f, 0xffffffff, 0xffffefff} {
		if _, ok := smallest[v]; ok {
			continue
		}
		if op, ok := ImmOp2(v); ok {
			t.Errorf("%#x is encoded as %#x, but 8 bits cannot hold it", v, op)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("Imm took a value without an encoding")
		}
	}()
	Imm(0x101)
}

// A reused buffer must not allocate: emitters call these methods millions of
// times.
func TestNoAllocations(t *testing.T) {
	buf := make(Buf, 0, 256)
	allocs := testing.AllocsPerRun(100, func() {
		buf = buf[:0]
		buf.Push(Regs(R4, R6, LR))
		buf.Alu(AL, Add, R1, R5, Imm(14))
		buf.Ldr(AL, R7, At(R6, 172))
		buf.Ldrh(GE, R4, Indexed(R0, R3))
		buf.Movt(AL, R3, 0xc070)
		buf.Blx(AL, R3)
		buf.B(HI, 8)
	})
	if allocs != 0 {
		t.Errorf("%v allocations, want 0", allocs)
	}
}
