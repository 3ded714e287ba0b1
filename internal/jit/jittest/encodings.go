package jittest

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// Encodings reads testdata/encodings.txt: what we call, the bytes it has to
// give, and what an independent decoder has to read in them. Encode returns
// what a call gives, by [Call] on a new buffer. With update, bytes and texts
// are written anew.
func Encodings(t *testing.T, update bool, encode func(call string) ([]byte, error), decode func(code []byte) string) {
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
		if len(fields) != 3 && !update {
			t.Fatalf("%s:%d: want bytes, text and call between tabs", file, n)
		}
		call := fields[len(fields)-1]
		code, err := encode(call)
		if err != nil {
			t.Errorf("%s:%d: %v", file, n, err)
			continue
		}
		cases++
		got := hex.EncodeToString(code)
		fmt.Fprintf(&out, "%s\t%s\t%s\n", got, decode(code), call)
		if update {
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
	if update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d encodings", cases)
}

// Decoded is the text of an instruction that has size bytes of some code, if
// those are all.
func Decoded(code []byte, size int, text string) string {
	if size != len(code) {
		return fmt.Sprintf("an instruction of %d bytes in %d", size, len(code))
	}
	return text
}

// Call evaluates a method call such as Mov(W32, R(BX), AX) on a buffer. Names
// has the identifiers that it may use.
func Call(buf any, call string, names map[string]any) error {
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
	args, err := evalArgs(method.Type(), c.Args, names)
	if err != nil {
		return fmt.Errorf("%s: %w", call, err)
	}
	method.Call(args)
	return nil
}

// evalArgs evaluates the arguments of a function of the given type.
func evalArgs(fn reflect.Type, exprs []ast.Expr, names map[string]any) ([]reflect.Value, error) {
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
			inner, err := evalArgs(fn.Type(), e.Args, names)
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
