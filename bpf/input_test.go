package bpf_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/kjit-project/kjit/bpf"
)

// hexBytes is a byte string that JSON writes as hex digits.
type hexBytes []byte

func (h *hexBytes) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

// hexWord is an unsigned number that JSON writes as "0x..." or as a number.
type hexWord uint64

func (h *hexWord) UnmarshalJSON(data []byte) error {
	n, err := strconv.ParseUint(string(bytes.Trim(data, `"`)), 0, 64)
	*h = hexWord(n)
	return err
}

// packet is the socket input of these tests, in the form of the record files:
// a packet of which the first Headlen bytes are linear, with the network
// header at 14 and the link-layer header at 0 unless Skb says otherwise.
type packet struct {
	Packet  hexBytes       `json:"packet"`
	Headlen *int           `json:"headlen"`
	Skb     map[string]int `json:"skb"`
}

func (p *packet) Len() uint32 { return uint32(len(p.Packet)) }

func (p *packet) Linear() []byte {
	if p.Headlen != nil {
		return p.Packet[:*p.Headlen]
	}
	return p.Packet
}

func (p *packet) field(name string, otherwise int) int {
	if value, ok := p.Skb[name]; ok {
		return value
	}
	return otherwise
}

func (p *packet) Load(off uint32, size int) (uint32, bool) {
	at, from := int(int32(off)), []byte(p.Packet)
	switch {
	case off >= bpf.NetOff:
		at, from = p.field("network_header", 14)+int(off-bpf.NetOff), p.Linear()
	case off >= bpf.LLOff:
		at, from = p.field("mac_header", 0)+int(off-bpf.LLOff), p.Linear()
	case at < 0:
		return 0, false
	}
	if at < 0 || at+size > len(from) {
		return 0, false
	}
	var value uint32
	for _, b := range from[at : at+size] {
		value = value<<8 | uint32(b)
	}
	return value, true
}

// extensionFields names the fields of the record files, by ancillary load.
var extensionFields = map[bpf.Extension]string{
	bpf.ExtProtocol: "protocol", bpf.ExtPktType: "pkt_type", bpf.ExtIfindex: "ifindex",
	bpf.ExtMark: "mark", bpf.ExtQueue: "queue_mapping", bpf.ExtHatype: "dev_type",
	bpf.ExtRxhash: "hash", bpf.ExtCPU: "cpu", bpf.ExtVlanTCI: "vlan_tci",
	bpf.ExtVlanPr: "vlan_present", bpf.ExtVlanTPID: "vlan_proto",
}

// Extension gives the field of the record, and for the loads that use A and X
// a value made of both. Without a device it ends the program with A, as today's
// Linux does.
func (p *packet) Extension(ext bpf.Extension, a, x uint32) (uint32, bool) {
	if name, ok := extensionFields[ext]; ok {
		value, known := p.Skb[name]
		if !known && (ext == bpf.ExtIfindex || ext == bpf.ExtHatype) {
			return a, false
		}
		return uint32(value), true
	}
	return uint32(ext) + 1000*a + x, true
}

// systemCall is the seccomp input of these tests, in the form of the record
// files.
type systemCall struct {
	Nr   int64     `json:"nr"`
	Arch hexWord   `json:"arch"`
	IP   hexWord   `json:"ip"`
	Args []hexWord `json:"args"`
}

func (c *systemCall) data() (data [64]byte) {
	binary.LittleEndian.PutUint32(data[0:], uint32(c.Nr))
	binary.LittleEndian.PutUint32(data[4:], uint32(c.Arch))
	binary.LittleEndian.PutUint64(data[8:], uint64(c.IP))
	for n, arg := range c.Args {
		binary.LittleEndian.PutUint64(data[16+8*n:], uint64(arg))
	}
	return data
}

func (c *systemCall) Len() uint32    { return 64 }
func (c *systemCall) Linear() []byte { return nil }

func (c *systemCall) Load(off uint32, size int) (uint32, bool) {
	if off > 60 || size != 4 {
		return 0, false
	}
	data := c.data()
	return binary.LittleEndian.Uint32(data[off:]), true
}

func (c *systemCall) Extension(ext bpf.Extension, a, x uint32) (uint32, bool) {
	panic(fmt.Sprintf("a seccomp filter asked for ancillary load %v", ext))
}

// anyInput is an input of either kind.
type anyInput struct{ bpf.Input }

func (in *anyInput) UnmarshalJSON(data []byte) error {
	var probe struct{ Packet *string }
	if err := json.Unmarshal(data, &probe); err != nil {
		return err
	}
	if probe.Packet != nil {
		in.Input = new(packet)
	} else {
		in.Input = new(systemCall)
	}
	return json.Unmarshal(data, in.Input)
}
