package emulator

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/unicorn-engine/unicorn/bindings/go/unicorn"

	"github.com/kjit-project/kjit/kernelabi"
)

// BenchmarkPlainC compares a batch with what nothing but Unicorn takes for the
// same driver, image and packets: see ci/cbench. Best times, since the ratios
// are what matters.
func BenchmarkPlainC(b *testing.B) {
	const rounds = 400
	m := postingMachine(b)
	if err := m.Load(&kernelabi.Image{Code: unhex(postingImage), Base: 0xffffffffa00b5000}); err != nil {
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

	for b.Loop() {
		// In turns, so that both meet the same neighbours.
		best := []float64{0, 0, 0, 0}
		keep := func(i int, ns float64) {
			if best[i] == 0 || ns < best[i] {
				best[i] = ns
			}
		}
		for range 4 {
			out, err := exec.Command(program, snapshot, strconv.Itoa(rounds)).CombinedOutput()
			if err != nil {
				b.Fatalf("%v: %s", err, out)
			}
			for i, field := range strings.Fields(string(out)) {
				ns, err := strconv.ParseFloat(field, 64)
				if err != nil {
					b.Fatal(err)
				}
				keep(i, ns)
			}
			for range rounds {
				const batches = 64
				began := time.Now()
				for range batches {
					if results, err = m.Run(inputs, results); err != nil {
						b.Fatal(err)
					}
				}
				keep(3, float64(time.Since(began).Nanoseconds())/batches/windowSlots)
			}
		}
		b.ReportMetric(0, "ns/op")
		for i, name := range []string{"1-c", "2-c+copying", "3-c+copying+counting", "4-kjit"} {
			b.ReportMetric(best[i], name)
		}
		b.ReportMetric(best[3]/best[0], "kjit/c")
		b.ReportMetric(best[3]/best[1], "kjit/c+copying")
	}
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
	for i, in := range inputs {
		size := uint64(len(in.(*kernelabi.Skb).Packet))
		e := &m.packets.small[i]
		pa, _, _ := m.tables.walk(e.va)
		put(pa+uint64(len(e.mem))-size, size, uint64(results[i].Value))
	}
	b.Write(m.mem.ram)
	return b.Bytes()
}
