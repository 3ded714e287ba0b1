package x86

import (
	"encoding/hex"
	"strings"
	"testing"
)

func TestAsm(t *testing.T) {
	var a Asm
	end := a.NewLabel()
	loop := a.Here()
	a.Unary(Neg, W32, R(AX))
	a.Jcc(CondE, end)
	a.Call(0xffffffff81000000)
	a.Jmp(loop)
	a.Bind(end)
	a.LeaLabel(CX, loop)
	a.Bare(Ret)
	code, err := a.Bytes(0xffffffff80000000)
	if err != nil {
		t.Fatal(err)
	}
	want := "f7d8" + "0f840a000000" + "e8f3ffff00" + "e9eeffffff" + "488d0de7ffffff" + "c3"
	if got := hex.EncodeToString(code); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if _, err := a.Bytes(0x100000000); err == nil || !strings.Contains(err.Error(), "2 GiB") {
		t.Errorf("a call farther than 2 GiB gave error %v", err)
	}
	a.Reset()
	a.Jmp(a.NewLabel())
	if _, err := a.Bytes(0); err == nil || !strings.Contains(err.Error(), "bound nowhere") {
		t.Errorf("a jump to an unbound label gave error %v", err)
	}
}

// A reused buffer must not allocate: emitters call these methods millions of
// times.
func TestNoAllocations(t *testing.T) {
	buf := make(Buf, 0, 256)
	allocs := testing.AllocsPerRun(100, func() {
		buf = buf[:0]
		buf.Alu(Add, W32, R(AX), BX)
		buf.Load(W32, AX, At(DI, 200))
		buf.MovImm32(SI, 12)
		buf.CallNear(0)
		buf.Load(W32, AX, GS(0xb0a0))
		buf.MovImm64(AX, 1)
		buf.Bare(RepMovsb)
	})
	if allocs != 0 {
		t.Errorf("%v allocations, want 0", allocs)
	}
}

func TestHighByteBesideREX(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("mov r8b, ah has no encoding but was encoded")
		}
	}()
	var buf Buf
	buf.Mov(W8, R(R8), AH)
}
