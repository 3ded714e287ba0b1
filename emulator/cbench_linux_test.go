package emulator

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/unicorn-engine/unicorn/bindings/go/unicorn"
	"golang.org/x/sys/unix"

	"github.com/kjit-project/kjit/kernelabi"
)

// BenchmarkPlainC compares a batch, and a fresh program on one packet, with what
// nothing but Unicorn takes for the same driver, image and packets: see ci/cbench.
// Both sides take turns of some milliseconds on one processor, because the speed of
// a shared machine differs from one second and one processor to the next. Medians of the times of a packet and of a
// program, and of the ratios of each turn.
func BenchmarkPlainC(b *testing.B) {
	const turns, batches = 300, 64
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
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pin(b)
	plain := startPlainC(b, buildPlainC(b, dir), snapshot)
	took := func(what func() error) float64 {
		began := time.Now()
		for i := range 2 * batches {
			if i == batches {
				began = time.Now()
			}
			if err := what(); err != nil {
				b.Fatal(err)
			}
		}
		return float64(time.Since(began).Nanoseconds()) / batches
	}
	batch := func() error {
		results, err = m.Run(inputs, results)
		return err
	}
	fresh := func() error {
		if err := m.Load(image); err != nil {
			return err
		}
		results, err = m.Run(inputs[:1], results)
		return err
	}

	times, ratios := map[string][]float64{}, map[string][]float64{}
	for b.Loop() {
		for range turns {
			kjit := took(batch) / windowSlots
			times["kjit"] = append(times["kjit"], kjit)
			for _, c := range []struct{ name, letter string }{{"c", "r"}, {"c+copying", "c"}, {"c+copying+counting", "b"}} {
				ns := plain(c.letter)
				times[c.name] = append(times[c.name], ns)
				ratios["kjit/"+c.name] = append(ratios["kjit/"+c.name], kjit/ns)
			}
			kjit, ns := took(fresh), plain("f")
			times["kjit-fresh"] = append(times["kjit-fresh"], kjit)
			times["c-fresh"] = append(times["c-fresh"], ns)
			ratios["kjit/c-fresh"] = append(ratios["kjit/c-fresh"], kjit/ns)
		}
	}
	b.ReportMetric(0, "ns/op")
	for name, all := range times {
		b.ReportMetric(median(all), name+"-ns")
	}
	for name, all := range ratios {
		b.ReportMetric(median(all), name)
	}
}

// pin keeps this thread, and what it starts, on one of the processors it may use.
func pin(b *testing.B) {
	b.Helper()
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		b.Fatal(err)
	}
	for cpu := range 8 * int(unsafe.Sizeof(all)) {
		if all.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := unix.SchedSetaffinity(0, &all); err != nil {
			b.Error(err)
		}
	})
}

// startPlainC starts ci/cbench and returns a function that asks it for the
// nanoseconds of one kind of run.
func startPlainC(b *testing.B, program, snapshot string) func(letter string) float64 {
	b.Helper()
	cmd := exec.Command(program, snapshot)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
	})
	lines := bufio.NewScanner(out)
	return func(letter string) float64 {
		if _, err := io.WriteString(in, letter); err != nil || !lines.Scan() {
			b.Fatalf("the C program has ended: %v %v", err, lines.Err())
		}
		ns, err := strconv.ParseFloat(lines.Text(), 64)
		if err != nil {
			b.Fatal(err)
		}
		return ns
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// buildPlainC compiles ci/cbench with the library that this program has.
func buildPlainC(b *testing.B, dir string) string {
	b.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		b.Skip("skipped: no C compiler")
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
