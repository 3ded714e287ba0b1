package paper

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/harness/livekernel/probe"
	"github.com/kjit-project/kjit/seccompdata"
)

// The filters that are measured have the call at the place that the table
// counts, and let everything pass. With the load in front they execute as many
// instructions as those counted there, where a guard against x32 takes its place.
func TestFilter306(t *testing.T) {
	want := map[string]int{
		"front, in ascending order": 5, "middle": 158, "end": 310, "end, given the highest priority": 5,
	}
	for _, abi := range []*seccompdata.ABI{seccompdata.X86_64, seccompdata.ARM, seccompdata.AARCH64} {
		call, ok := abi.Number("getppid")
		if !ok {
			t.Fatalf("no getppid on %s", abi)
		}
		for i, pos := range positions {
			prog, err := filter306(abi, call, i)
			if err != nil {
				t.Fatalf("%s, %s: %v", abi, pos.label, err)
			}
			f, err := seccompdata.NewFilter("", prog)
			if err != nil {
				t.Fatalf("%s, %s: %v", abi, pos.label, err)
			}
			proved := 0
			for nr := range uint32(600) {
				for _, arch := range []uint32{abi.Arch, 7} {
					if v := f.Run(&seccompdata.Data{Nr: nr, Arch: arch}); v.Action() != seccompdata.Allow {
						t.Errorf("%s, %s: call %d of %#x gets %s", abi, pos.label, nr, arch, seccompdata.FormatRet(v.Ret))
					}
				}
				if f.ConstAllow(nr, abi.Arch).Allowed {
					proved++
				}
			}
			if proved != calls306 {
				t.Errorf("%s, %s: %d calls are proved to be allowed, want %d", abi, pos.label, proved, calls306)
			}
			if !f.ConstAllow(call, abi.Arch).Allowed {
				t.Errorf("%s, %s: getppid is not proved to be allowed", abi, pos.label)
			}
			n, ok := want[pos.label]
			if got := f.Run(&seccompdata.Data{Nr: call, Arch: abi.Arch}).Executed; ok && got != n {
				t.Errorf("%s, %s: getppid executes %d instructions, want %d", abi, pos.label, got, n)
			}
		}
	}
}

// Measured columns come on top of the others, which stay as they are.
func TestMeasure(t *testing.T) {
	names := []string{"hromatka-2018", "zhu-2020", "cook-2020"}
	plain, err := Tables(names...)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := Tables(names...)
	if err != nil {
		t.Fatal(err)
	}
	for i, table := range tables {
		ok, err := table.Measure(context.Background(), 2000)
		var not *probe.UnavailableError
		if errors.As(err, &not) {
			t.Skip(err)
		} else if err != nil {
			t.Fatal(err)
		}
		before := plain[i]
		if ok != (table.Name != "zhu-2020") {
			t.Errorf("%s: measured: %v", table.Name, ok)
		}
		added := len(table.Columns) - len(before.Columns)
		if ok != (added > 0) {
			t.Errorf("%s: %d columns more", table.Name, added)
		}
		for _, c := range table.Columns[len(before.Columns):] {
			if c.Origin != Measured {
				t.Errorf("%s: column %s added", table.Name, c)
			}
		}
		for n, row := range table.Rows {
			t.Log(table.Name, row)
			if len(row.Cells) != len(table.Columns) {
				t.Fatalf("%s, %s: %d cells for %d columns", table.Name, row.Label, len(row.Cells), len(table.Columns))
			}
			have := row.Cells[:len(before.Columns)]
			if diff := cmp.Diff(text(before.Rows[n].Cells), text(have)); diff != "" {
				t.Errorf("%s, %s: %s", table.Name, row.Label, diff)
			}
		}
		if native := table.Rows[0].Cells; ok && (!native[len(native)-1].Known() || native[len(native)-1] <= 0) {
			t.Errorf("%s: a call takes %v ns", table.Name, native[len(native)-1])
		}
	}
	if checks := tables[2].Checks; len(checks) < 7+4 {
		t.Errorf("%d checks, want the counted ones and the measured ones: %v", len(checks), checks)
	}
}

func text(values []Value) (out []string) {
	for _, v := range values {
		out = append(out, v.Format(3))
	}
	return out
}
