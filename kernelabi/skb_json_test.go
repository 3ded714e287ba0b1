package kernelabi

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
)

func TestSkbJSON(t *testing.T) {
	for _, test := range []struct {
		desc, text string
		want       Skb
		short      string // what is written again, if it is not text
	}{
		{
			"a packet alone is linear, with the network header behind an Ethernet header",
			`{"packet":"00ff"}`,
			Skb{Packet: []byte{0, 0xff}, Headlen: 2, NetworkHeader: 14}, "",
		},
		{
			"a headlen makes one fragment of the rest",
			`{"packet":"000102","headlen":1}`,
			Skb{Packet: counting(3), Headlen: 1, Frags: []int{2}, NetworkHeader: 14}, "",
		},
		{
			"several fragments are listed",
			`{"packet":"000102","headlen":0,"frags":[1,2]}`,
			Skb{Packet: counting(3), Headlen: 0, Frags: []int{1, 2}, NetworkHeader: 14}, "",
		},
		{
			"an empty packet is one",
			`{"packet":""}`,
			Skb{Packet: []byte{}, NetworkHeader: 14}, "",
		},
		{
			"all metadata",
			`{"packet":"00","skb":{"protocol":1,"vlan_proto":2,"pkt_type":3,"mark":4,"hash":5,"queue_mapping":6,"vlan_tci":7,"vlan_present":true,"ifindex":8,"dev_type":9,"no_device":true,"mac_header":10,"network_header":11,"headroom":12,"cpu":13,"random":4294967295}}`,
			Skb{
				Packet: []byte{0}, Headlen: 1, Protocol: 1, VlanProto: 2, PktType: 3, Mark: 4, Rxhash: 5, Queue: 6,
				VlanTCI: 7, VlanPresent: true, Ifindex: 8, DevType: 9, NoDevice: true, MacHeader: 10, NetworkHeader: 11,
				Headroom: 12, CPU: 13, Random: 1<<32 - 1,
			}, "",
		},
		{
			"rxhash is the older name of hash",
			`{"packet":"00","skb":{"rxhash":5}}`,
			Skb{Packet: []byte{0}, Headlen: 1, Rxhash: 5, NetworkHeader: 14},
			`{"packet":"00","skb":{"hash":5}}`,
		},
		{
			"flags may be numbers",
			`{"packet":"00","skb":{"vlan_present":1,"no_device":0}}`,
			Skb{Packet: []byte{0}, Headlen: 1, VlanPresent: true, NetworkHeader: 14},
			`{"packet":"00","skb":{"vlan_present":true}}`,
		},
		{
			"a header before the packet has the headroom it needs",
			`{"packet":"00","skb":{"mac_header":-14,"network_header":0}}`,
			Skb{Packet: []byte{0}, Headlen: 1, MacHeader: -14, Headroom: 14}, "",
		},
		{
			"defaults may be written out",
			`{"packet":"0A","headlen":1,"frags":[],"skb":{"mac_header":0,"network_header":14,"protocol":0}}`,
			Skb{Packet: []byte{10}, Headlen: 1, NetworkHeader: 14},
			`{"packet":"0a"}`,
		},
	} {
		t.Run(test.desc, func(t *testing.T) {
			var got Skb
			if err := json.Unmarshal([]byte(test.text), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			text, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			want := test.text
			if test.short != "" {
				want = test.short
			}
			if string(text) != want {
				t.Errorf("written again: %s, want %s", text, want)
			}
		})
	}
}

func TestSkbJSONErrors(t *testing.T) {
	for _, test := range []struct {
		desc, text string
		want       SkbError
	}{
		{"a character that is no digit has a place", `{"packet":"00g0"}`, SkbError{"packet", 2, "'g' is not a hex digit"}},
		{"an odd digit has one, too", `{"packet":"001"}`, SkbError{"packet", 3, "half a byte is missing at the end"}},
		{"a file without packet", `{"headlen":0}`, SkbError{"packet", -1, "is missing"}},
		{"a packet that is null", `{"packet":null}`, SkbError{"packet", -1, "is missing"}},
		{"an unknown field", `{"packet":"00","hedlen":0}`, SkbError{"packet record", -1, `unknown field "hedlen"`}},
		{"an unknown field of skb", `{"packet":"00","skb":{"marc":1}}`, SkbError{"packet record", -1, `unknown field "marc"`}},
		{"a number that does not fit", `{"packet":"00","skb":{"protocol":65536}}`, SkbError{"skb.protocol", -1, "cannot be a number 65536"}},
		{"text for a number", `{"packet":"00","skb":{"mark":"1"}}`, SkbError{"skb.mark", -1, "cannot be a string"}},
		{"two names of one field", `{"packet":"00","skb":{"hash":1,"rxhash":1}}`, SkbError{"skb.rxhash", -1, "is another name of hash, which is there too"}},
		{"a linear part behind the end", `{"packet":"00","headlen":2}`, SkbError{"headlen", -1, "2 is not in 0..1, the length of the packet"}},
		{"a flag that is none", `{"packet":"00","skb":{"no_device":2}}`, SkbError{"packet record", -1, "flag 2: want true, false, 1 or 0"}},
		{"fragments that leave bytes over", `{"packet":"000000","headlen":1,"frags":[1]}`, SkbError{"frags", -1, "1 bytes of the packet are neither linear nor in a fragment"}},
	} {
		t.Run(test.desc, func(t *testing.T) {
			var bad *SkbError
			err := json.Unmarshal([]byte(test.text), new(Skb))
			if !errors.As(err, &bad) {
				t.Fatalf("got error %v, want a *SkbError", err)
			}
			if diff := cmp.Diff(test.want, *bad); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !strings.HasPrefix(err.Error(), test.want.Field+": ") {
				t.Errorf("the message %q does not start with the field", err)
			}
		})
	}
}

// checkSkbText is the body of the fuzz target: text that is read as a packet is
// a valid one, stays the same when written and read again, and can be loaded
// from anywhere.
func checkSkbText(t *testing.T, text []byte) {
	var s Skb
	if json.Unmarshal(text, &s) != nil {
		return
	}
	if err := s.Check(); err != nil {
		t.Fatalf("%s was read and is not valid: %v", text, err)
	}
	written, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var again Skb
	if err := json.Unmarshal(written, &again); err != nil {
		t.Fatalf("%s was written and is not read: %v", written, err)
	}
	if diff := cmp.Diff(s, again); diff != "" {
		t.Fatalf("%s changed by writing and reading it:\n%s", text, diff)
	}
	offsets := []uint32{0, 1 << 31, 1<<31 - 1, 1<<32 - 1, bpf.NetOff, bpf.LLOff, bpf.LLOff - 1, uint32(len(s.Packet))}
	for _, v := range []bpf.Input{s.Under(Semantics{}), s.Under(Current().Semantics)} {
		for _, off := range offsets {
			for _, size := range []int{1, 2, 4} {
				v.Load(off-1, size)
				v.Load(off, size)
			}
			for n := range uint32(bpf.NumExtensions) {
				v.Extension(bpf.Extension(4*n), off, off)
			}
		}
	}
}

var skbTexts = []string{
	`{"packet":"00ff"}`,
	`{"packet":"000102","headlen":0,"frags":[1,2],"skb":{"protocol":2048,"mac_header":-14,"network_header":0}}`,
	`{"packet":"ffffffffffff00112233445508004500001c0001400040060000c0a814010a000001","skb":{"protocol":2048,"vlan_present":1}}`,
	`{"packet":"0400010008000200040003000000","skb":{"protocol":34916,"headroom":3}}`,
	`{"packet":"88640000110000220021450000140000000040040000010203040506070845000014","skb":{"protocol":34916,"network_header":2}}`,
}

func FuzzSkbJSON(f *testing.F) {
	for _, text := range skbTexts {
		f.Add([]byte(text))
	}
	f.Fuzz(checkSkbText)
}
