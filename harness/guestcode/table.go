package guestcode

import (
	"encoding/binary"
	"maps"
	"math/bits"
	"slices"
)

// Table decides by the number of the call alone, with a look into a hash table
// (the proposal of February 2018, an eBPF hash map for seccomp).
type Table struct {
	Returns   map[uint32]uint32 // by number
	Otherwise uint32            // for all other calls
}

// tableSeed is an arbitrary constant: kernels draw one at random for each map.
const tableSeed = 0x9e3779b9

// place adds struct table and the entries, bucket by bucket.
func (t *Table) place(l *layout) (table, entries int) {
	buckets := 1 << bits.Len(uint(max(len(t.Returns), 1)-1)) // as many as entries at least
	byBucket := make([][]uint32, buckets)
	for _, nr := range slices.Sorted(maps.Keys(t.Returns)) {
		b := hash(nr) & uint32(buckets-1)
		byBucket[b] = append(byBucket[b], nr)
	}
	head := binary.LittleEndian.AppendUint32(nil, uint32(buckets-1))
	head = binary.LittleEndian.AppendUint32(head, tableSeed)
	head = binary.LittleEndian.AppendUint32(head, t.Otherwise)
	var list []byte
	for _, bucket := range byBucket {
		head = binary.LittleEndian.AppendUint32(head, uint32(len(list)/8))
		for _, nr := range bucket {
			list = binary.LittleEndian.AppendUint32(list, nr)
			list = binary.LittleEndian.AppendUint32(list, t.Returns[nr])
		}
	}
	head = binary.LittleEndian.AppendUint32(head, uint32(len(list)/8))
	return l.add(head), l.add(list)
}

// hash is the same as in table.c.
func hash(nr uint32) uint32 {
	a, b, c := nr+tableSeed, uint32(tableSeed), uint32(tableSeed)
	mix := func(into *uint32, from uint32, by int) {
		*into = (*into ^ from) - bits.RotateLeft32(from, by)
	}
	mix(&c, b, 14)
	mix(&a, c, 11)
	mix(&b, a, 25)
	mix(&c, b, 16)
	mix(&a, c, 4)
	mix(&b, a, 14)
	mix(&c, b, 24)
	return c
}
