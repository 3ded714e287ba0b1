package emulator

import (
	"encoding/binary"
	"testing"

	"github.com/kjit-project/kjit/kernelabi"
)

// Counting what a faulting block has executed asks the engine to translate, for
// instructions that are not decoded here. That works with a full buffer too,
// where the engine once jumped through the end of a run that was long over.
func TestCountsWithFullBuffer(t *testing.T) {
	m := postingMachine(t, WithBuffer(1<<20))
	inputs := postingPackets(1)
	var results []Result
	for i := range 8000 {
		// mov $i, %eax; mov 0, %eax, which faults; prefetch, which is not decoded; ret
		code := binary.LittleEndian.AppendUint32([]byte{0xb8}, uint32(i))
		code = append(code, unhex("8b042500000000"+"0f0d00"+"c3")...)
		img := &kernelabi.Image{Code: code, Base: m.profile.Base, BaseKnown: true, Profile: m.profile}
		if err := m.Load(img); err != nil {
			t.Fatal(err)
		}
		var err error
		if results, err = m.Run(inputs, results); err != nil {
			t.Fatal(err)
		}
		if r := &results[0]; r.Fault == nil || r.Inexact || r.Insns != 1 {
			t.Fatalf("load %d: fault %v, %d instructions (inexact: %v), want 1 in front of the fault", i, r.Fault, r.Insns, r.Inexact)
		}
	}
}
