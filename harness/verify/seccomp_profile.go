package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/seccompdata"
)

// profileRecord describes a filter, which is beside the record.
type profileRecord struct {
	Name      string         `json:"name"`
	Insns     int            `json:"insns"`
	Converted int            `json:"converted_len"`
	Stacked   int            `json:"max_stacked"` // how many of it fit over each other
	Opcodes   map[string]int `json:"opcodes"`     // by code, two hex digits
	CRC       string         `json:"crc32"`       // of the image that attaching takes, little endian
}

func checkProfile(c *Checker, rec *profileRecord) error {
	f, err := c.filter(rec.Name)
	if err != nil {
		return err
	}
	raw, err := bpftext.Format(bpftext.Raw, f.Program())
	if err != nil {
		return err
	}
	got := profileRecord{
		Name: rec.Name, Insns: f.Len(), Converted: f.Converted,
		Opcodes: map[string]int{}, CRC: fmt.Sprintf("%08x", crc32.ChecksumIEEE(raw)),
	}
	for _, ins := range f.Program() {
		got.Opcodes[fmt.Sprintf("%02x", ins.Code)]++
	}
	if got.Stacked, err = stack(f); err != nil {
		return err
	}
	if diff := cmp.Diff(rec, &got); diff != "" {
		return fmt.Errorf("the filter is not what the record says (-record +filter):\n%s", diff)
	}
	return nil
}

// stack attaches the filter until there is no room left.
func stack(f *seccompdata.Filter) (depth int, err error) {
	for chain := (seccompdata.Chain{}); ; depth++ {
		chain, err = chain.Attach(seccompdata.Attached{Filter: f})
		var full *seccompdata.AttachError
		if errors.As(err, &full) && full.Errno == seccompdata.ENOMEM {
			return depth, nil
		} else if err != nil {
			return depth, err
		}
	}
}

// constAllowRecord says which calls of an architecture a filter is proved to
// allow, and why others that it allows are not proved.
type constAllowRecord struct {
	Filter string     `json:"filter"`
	Arch   uint32     `json:"arch"`
	Tested int        `json:"nr_tested"` // numbers from 0 on
	Cached []uint32   `json:"cached"`
	Lost   []lostCall `json:"lost"`

	// In place of lost where there are many: how many, and some of the
	// instructions that lost them.
	LostCount int   `json:"lost_count"`
	LostAllAt []int `json:"lost_all_at"`
}

// lostCall is a call that is allowed and not proved to be: [nr, pc, why].
type lostCall struct {
	Nr  uint32
	PC  int
	Why seccompdata.Why
}

func (l *lostCall) UnmarshalJSON(data []byte) error {
	fields := []any{&l.Nr, &l.PC, &l.Why}
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	if len(fields) != 3 {
		return fmt.Errorf("a lost call of %d fields: want [nr, pc, why]", len(fields))
	}
	return nil
}

// maxTested bounds the numbers of a record.
const maxTested = 1 << 16

func checkConstAllow(c *Checker, rec *constAllowRecord) error {
	f, err := c.filter(rec.Filter)
	if err != nil {
		return err
	}
	if rec.Tested < 0 || rec.Tested > maxTested {
		return &invalidRecord{fmt.Errorf("nr_tested %d is not in 0..%d", rec.Tested, maxTested)}
	}
	var cached []uint32
	var lost []lostCall
	for nr := range uint32(rec.Tested) {
		proof := f.ConstAllow(nr, rec.Arch)
		allowed := f.Run(&seccompdata.Data{Nr: nr, Arch: rec.Arch}).Ret == uint32(seccompdata.Allow)
		switch {
		case proof.Allowed && !allowed:
			return fmt.Errorf("call %d is proved to be allowed, and is not", nr)
		case proof.Allowed:
			cached = append(cached, nr)
		case allowed:
			lost = append(lost, lostCall{nr, proof.PC, proof.Why})
		}
	}
	if !slices.Equal(cached, rec.Cached) {
		return fmt.Errorf("calls proved to be allowed differ (-record +kjit):\n%s", cmp.Diff(rec.Cached, cached))
	}
	if rec.LostAllAt == nil {
		if !slices.Equal(lost, rec.Lost) {
			return fmt.Errorf("calls that are lost differ (-record +kjit):\n%s", cmp.Diff(rec.Lost, lost))
		}
		return nil
	}
	return rec.checkMany(lost)
}

// checkMany compares what a record says of many lost calls.
func (rec *constAllowRecord) checkMany(lost []lostCall) error {
	const most = 5 // instructions that a record lists
	pcs := map[int]bool{}
	for _, l := range lost {
		pcs[l.PC] = true
	}
	at := slices.Sorted(maps.Keys(pcs))
	listed := slices.Sorted(slices.Values(rec.LostAllAt))
	unknown := slices.ContainsFunc(listed, func(pc int) bool { return !pcs[pc] })
	if len(lost) != rec.LostCount || unknown || len(slices.Compact(listed)) != min(most, len(at)) {
		return fmt.Errorf("%d calls are lost at %v, the record has %d at %v", len(lost), at, rec.LostCount, rec.LostAllAt)
	}
	return nil
}
