package kernelabi

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Layout gives the byte offset of each struct field that compiled code may
// read, under "struct.field" ("sk_buff.len", "net_device.ifindex"). The fields
// it leaves out are those nobody measured: needing one is an error.
type Layout map[string]int

// The fields that classic JITs read. Header fields (transport_header ...) and
// tail and end are offsets from head on 64-bit kernels.
const (
	SkbLen        = "sk_buff.len"
	SkbDataLen    = "sk_buff.data_len"
	SkbData       = "sk_buff.data"
	SkbHead       = "sk_buff.head"
	SkbTail       = "sk_buff.tail"
	SkbEnd        = "sk_buff.end"
	SkbProtocol   = "sk_buff.protocol"
	SkbPktType    = "sk_buff.pkt_type" // the byte whose low 3 bits hold it
	SkbMark       = "sk_buff.mark"
	SkbRxhash     = "sk_buff.rxhash"
	SkbQueue      = "sk_buff.queue_mapping"
	SkbVlanTCI    = "sk_buff.vlan_tci"
	SkbDev        = "sk_buff.dev"
	SkbMacHeader  = "sk_buff.mac_header"
	SkbNetHeader  = "sk_buff.network_header"
	SkbTransport  = "sk_buff.transport_header"
	SkbSize       = "sk_buff.size" // sizeof(struct sk_buff)
	DevIfindex    = "net_device.ifindex"
	DevType       = "net_device.type"
	ThreadInfoCPU = "thread_info.cpu"
)

// Offset returns the offset of a field, or an error that names it.
func (l Layout) Offset(field string) (int, error) {
	if off, ok := l[field]; ok {
		return off, nil
	}
	return 0, fmt.Errorf("the layout has no %s: add it with --layout %s=OFFSET", field, field)
}

// With returns a copy of l with the fields of changes added or replaced. Names
// without a struct ("len") are taken as fields of sk_buff, as the golden
// records write them; "hash" is sk_buff.rxhash's later name, "ifindex" and
// "dev_type" are fields of net_device.
func (l Layout) With(changes map[string]int) Layout {
	out := maps.Clone(l)
	if out == nil {
		out = Layout{}
	}
	for name, off := range changes {
		out[qualify(name)] = off
	}
	return out
}

// Has reports whether l has the field, named as With takes it.
func (l Layout) Has(name string) bool {
	_, ok := l[qualify(name)]
	return ok
}

func qualify(name string) string {
	switch name {
	case "hash", "sk_buff.hash":
		return SkbRxhash
	case "ifindex":
		return DevIfindex
	case "dev_type":
		return DevType
	}
	if strings.Contains(name, ".") {
		return name
	}
	return "sk_buff." + name
}

// Fields returns the names in order of offset.
func (l Layout) Fields() []string {
	return slices.SortedFunc(maps.Keys(l), func(a, b string) int {
		if l[a] != l[b] {
			return l[a] - l[b]
		}
		return strings.Compare(a, b)
	})
}
