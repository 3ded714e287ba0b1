package emulator

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/unicorn-engine/unicorn/bindings/go/unicorn"

	"github.com/kjit-project/kjit/kernelabi"
)

// BenchmarkPlainC compares a batch, and a fresh program on one packet, with what
// nothing but Unicorn takes for the same driver, image and packets: see ci/cbench.
// Medians, of a packet's time and of a program's.
func BenchmarkPlainC(b *testing.B) {
	const turns, rounds = 15, 300
	m := postingMachine(b)
	image := &kernelabi.Image{Code: unhex(postingImage), Base: 0xffffffffa00b5000}
	if err := m.Load(image); err != nil {
		b.Fatal(err)
	}
	inputs := postingPackets(windowSlots)
	results, err := m.Run(inputs, nil)
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	snapshot := filepath.Join(dir, "snapshot")
	if err := os.WriteFile(snapshot, m.snapshot(inputs, results), 0o600); err != nil {
		b.Fatal(err)
	}
	program := buildPlainC(b, dir)

	var c [4][]float64
	var kjit, fresh []float64
	for b.Loop() {
		// In turns, so that all meet the same neighbours on average.
		for range turns {
			out, err := exec.Command(program, snapshot, strconv.Itoa(rounds)).CombinedOutput()
			if err != nil {
				b.Fatalf("%v: %s", err, out)
			}
			for i, field := range strings.Fields(string(out)) {
				ns, err := strconv.ParseFloat(field, 64)
				if err != nil {
					b.Fatal(err)
				}
				c[i] = append(c[i], ns)
			}
			const batches = 16
			took := func(what func() error) float64 {
				var all []float64
				for range rounds {
					began := time.Now()
					for range batches {
						if err := what(); err != nil {
							b.Fatal(err)
						}
					}
					all = append(all, float64(time.Since(began).Nanoseconds())/batches)
				}
				return median(all)
			}
			kjit = append(kjit, took(func() error {
				results, err = m.Run(inputs, results)
				return err
			})/windowSlots)
			fresh = append(fresh, took(func() error {
				if err := m.Load(image); err != nil {
					return err
				}
				results, err = m.Run(inputs[:1], results)
				return err
			}))
		}
	}
	b.ReportMetric(0, "ns/op")
	mine := median(kjit)
	for i, name := range []string{"c", "c+copying", "c+copying+counting"} {
		b.ReportMetric(median(c[i]), fmt.Sprintf("%d-%s", i+1, name))
		b.ReportMetric(mine/median(c[i]), "kjit/"+name)
	}
	b.ReportMetric(mine, "4-kjit")
	b.ReportMetric(median(c[3]), "5-c-fresh")
	b.ReportMetric(median(fresh), "6-kjit-fresh")
	b.ReportMetric(median(fresh)/median(c[3]), "kjit/c-fresh")
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// buildPlainC compiles ci/cbench with the library that this program has.
func buildPlainC(b *testing.B, dir string) string {
	b.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil || runtime.GOOS != "linux" {
		b.Skip("no C compiler, or not Linux")
	}
	output := func(name string, arg ...string) string {
		cmd := exec.Command(name, arg...)
		cmd.Dir = ".."
		out, err := cmd.CombinedOutput()
		if err != nil {
			b.Fatalf("%s: %v: %s", name, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	source := output("go", "list", "-m", "-f", "{{.Dir}}", "github.com/unicorn-engine/unicorn")
	lib := output("ci/setup.sh", "--print")
	program := filepath.Join(dir, "cbench")
	output(cc, "-O2", "-I", filepath.Join(source, "include"), "-o", program, "ci/cbench/cbench.c",
		filepath.Join(lib, "libunicorn.a"), "-lpthread", "-lm")
	return program
}

// snapshot is the machine, about to run the inputs of its window, as ci/cbench
// reads it.
func (m *Machine) snapshot(inputs []kernelabi.Input, results []Result) []byte {
	var b bytes.Buffer
	put := func(values ...uint64) {
		for _, v := range values {
			binary.Write(&b, binary.NativeEndian, v)
		}
	}
	put(0x6b6a6974, uint64(m.plan.engine.Arch), uint64(m.plan.engine.Mode), uint64(m.plan.engine.Model))
	put(uint64(len(m.mem.ram)))
	put(6, unicorn.X86_REG_CR3, m.tables.root(), ^uint64(0), msrEFER, efer, unicorn.X86_REG_CR4, cr4,
		unicorn.X86_REG_CR0, cr0, unicorn.X86_REG_GS_BASE, gsBase, unicorn.X86_REG_EFLAGS, rflags)
	control := m.region(m.va.page(pageControl)).pa
	put(m.driver.begin, m.driver.halted, uint64(len(inputs)))
	put(control+ctlCursor, m.descriptor(0), control+ctlDescriptors+descValue)
	put(m.image.Base, m.arena+m.imageCode.lo, uint64(len(m.image.Code)), control+ctlDescriptors+descSize+descSkb)
	for i, in := range inputs {
		size := uint64(len(in.(*kernelabi.Skb).Packet))
		e := &m.packets.small[i]
		pa, _, _ := m.tables.walk(e.va)
		put(pa+uint64(len(e.mem))-size, size, uint64(results[i].Value))
	}
	b.Write(m.mem.ram)
	return b.Bytes()
}
