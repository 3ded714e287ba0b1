package arm

import (
	"bufio"
	"encoding/hex"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/arch/arm/armasm"
)

var update = flag.Bool("update", false, "rewrite testdata/encodings.txt; review the difference")

// TestEncodings reads testdata/encodings.txt: what we call, the bytes it has
// to give, and what an independent decoder (x/arch) has to read in them.
func TestEncodings(t *testing.T) {
	const file = "testdata/encodings.txt"
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out strings.Builder
	cases := 0
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			fmt.Fprintln(&out, line)
			continue
		}
		fields := strings.Split(line, "\t")
		if len(fields) != 3 && !*update {
			t.Fatalf("%s:%d: want bytes, text and call between tabs", file, n)
		}
		var buf Buf
		call := fields[len(fields)-1]
		if err := appendCall(&buf, call); err != nil {
			t.Errorf("%s:%d: %v", file, n, err)
			continue
		}
		cases++
		got := hex.EncodeToString(buf)
		text := decode(buf)
		fmt.Fprintf(&out, "%s\t%s\t%s\n", got, text, call)
		if *update {
			continue
		}
		if got != fields[0] {
			t.Errorf("%s:%d: %s = %s, want %s", file, n, call, got, fields[0])
		}
		want, _ := hex.DecodeString(fields[0])
		if text := decode(want); text != fields[1] {
			t.Errorf("%s:%d: %s decodes to %q, want %q", file, n, fields[0], text, fields[1])
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d encodings", cases)
}

// decode returns what x/arch reads in the bytes of one instruction.
func decode(code []byte) string {
	inst, err := armasm.Decode(code, armasm.ModeARM)
	if err != nil {
		return err.Error()
	}
	if inst.Len != len(code) {
		return fmt.Sprintf("an instruction of %d bytes in %d", inst.Len, len(code))
	}
	return armasm.GNUSyntax(inst)
}

// names are the identifiers that calls in the test data use.
var names = map[string]any{
	"R0": R0, "R1": R1, "R2": R2, "R3": R3, "R4": R4, "R5": R5, "R6": R6, "R7": R7, "R8": R8,
	"R9": R9, "R10": R10, "FP": FP, "IP": IP, "SP": SP, "LR": LR, "PC": PC,
	"EQ": EQ, "NE": NE, "HS": HS, "LO": LO, "MI": MI, "PL": PL, "VS": VS, "VC": VC,
	"HI": HI, "LS": LS, "GE": GE, "LT": LT, "GT": GT, "LE": LE, "AL": AL,
	"And": And, "Eor": Eor, "Sub": Sub, "Rsb": Rsb, "Add": Add, "Adc": Adc, "Sbc": Sbc, "Rsc": Rsc,
	"Tst": Tst, "Teq": Teq, "Cmp": Cmp, "Cmn": Cmn, "Orr": Orr, "Bic": Bic,
	"LSL": LSL, "LSR": LSR, "ASR": ASR, "ROR": ROR,
	"Wfi": Wfi, "Bkpt": Bkpt, "Udf": Udf,
	"R": R, "Imm": Imm, "Shifted": Shifted, "ShiftedBy": ShiftedBy, "Regs": Regs,
	"At": At, "Indexed": Indexed, "Pre": Pre, "Post": Post,
}

// appendCall evaluates a method call such as Mov(AL, R4, Imm(1)) on buf.
func appendCall(buf *Buf, call string) error {
	expr, err := parser.ParseExpr(call)
	if err != nil {
		return err
	}
	c, ok := expr.(*ast.CallExpr)
	if !ok {
		return fmt.Errorf("%s is not a call", call)
	}
	method := reflect.ValueOf(buf).MethodByName(c.Fun.(*ast.Ident).Name)
	if !method.IsValid() {
		return fmt.Errorf("%s: no such method", call)
	}
	args, err := evalArgs(method.Type(), c.Args)
	if err != nil {
		return fmt.Errorf("%s: %w", call, err)
	}
	method.Call(args)
	return nil
}

// evalArgs evaluates the arguments of a function of the given type.
func evalArgs(fn reflect.Type, exprs []ast.Expr) ([]reflect.Value, error) {
	if fn.NumIn() != len(exprs) && !fn.IsVariadic() {
		return nil, fmt.Errorf("want %d arguments", fn.NumIn())
	}
	args := make([]reflect.Value, len(exprs))
	for n, expr := range exprs {
		want := fn.In(min(n, fn.NumIn()-1))
		if fn.IsVariadic() {
			want = want.Elem() // a set of registers
		}
		negative := false
		if minus, ok := expr.(*ast.UnaryExpr); ok && minus.Op == token.SUB {
			negative, expr = true, minus.X
		}
		var value reflect.Value
		switch e := expr.(type) {
		case *ast.BasicLit:
			v, err := strconv.ParseUint(e.Value, 0, 64)
			if err != nil {
				return nil, err
			}
			if negative {
				v = -v
			}
			value = reflect.ValueOf(v).Convert(want)
		case *ast.Ident:
			value = reflect.ValueOf(names[e.Name])
		case *ast.CallExpr:
			fn := reflect.ValueOf(names[e.Fun.(*ast.Ident).Name])
			inner, err := evalArgs(fn.Type(), e.Args)
			if err != nil {
				return nil, err
			}
			value = fn.Call(inner)[0]
		}
		if !value.IsValid() || value.Type() != want {
			return nil, fmt.Errorf("argument %d is not a %v", n+1, want)
		}
		args[n] = value
	}
	return args, nil
}
