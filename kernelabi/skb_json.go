package kernelabi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// defaultNetworkHeader is where the network header is when a file does not say:
// behind an Ethernet header. The link-layer header is at 0.
const defaultNetworkHeader = ethHlen

// skbText is the JSON form of an Skb. headlen absent: all linear; frags absent:
// what is not linear is one fragment; a field of skb absent: 0, or the default
// named here. The device is there unless no_device says otherwise.
type skbText struct {
	Packet  *HexBytes `json:"packet"`
	Headlen *int      `json:"headlen,omitempty"`
	Frags   []int     `json:"frags,omitempty"`
	Skb     *skbMeta  `json:"skb,omitempty"`
}

// skbMeta is the metadata in skbText.
type skbMeta struct {
	Protocol      *uint16 `json:"protocol,omitempty"`
	VlanProto     *uint16 `json:"vlan_proto,omitempty"`
	PktType       *uint8  `json:"pkt_type,omitempty"`
	Mark          *uint32 `json:"mark,omitempty"`
	Hash          *uint32 `json:"hash,omitempty"`
	Rxhash        *uint32 `json:"rxhash,omitempty"` // the older name of hash; read only
	Queue         *uint16 `json:"queue_mapping,omitempty"`
	VlanTCI       *uint16 `json:"vlan_tci,omitempty"`
	VlanPresent   *flag   `json:"vlan_present,omitempty"`
	Ifindex       *uint32 `json:"ifindex,omitempty"`
	DevType       *uint16 `json:"dev_type,omitempty"`
	NoDevice      *flag   `json:"no_device,omitempty"`
	MacHeader     *int    `json:"mac_header,omitempty"`
	NetworkHeader *int    `json:"network_header,omitempty"` // default 14
	Headroom      *int    `json:"headroom,omitempty"`       // default: what negative headers need
	CPU           *uint32 `json:"cpu,omitempty"`
	Random        *uint32 `json:"random,omitempty"`
}

// flag is a boolean that files also write as 0 or 1.
type flag bool

func (f *flag) UnmarshalJSON(data []byte) error {
	switch string(data) {
	case "true", "1":
		*f = true
	case "false", "0":
		*f = false
	default:
		return fmt.Errorf("flag %.20s: want true, false, 1 or 0", data)
	}
	return nil
}

// MarshalJSON writes {"packet": hex, "headlen"?, "frags"?, "skb"?: {...}},
// leaving out what has its default.
func (s Skb) MarshalJSON() ([]byte, error) { return json.Marshal(s.text()) }

func (s *Skb) text() skbText {
	packet := HexBytes(s.Packet)
	text := skbText{Packet: &packet}
	if !s.IsLinear() {
		text.Headlen = &s.Headlen
	}
	if len(s.Frags) > 1 {
		text.Frags = s.Frags
	}
	meta := skbMeta{
		Protocol:      unless(s.Protocol, 0),
		VlanProto:     unless(s.VlanProto, 0),
		PktType:       unless(s.PktType, 0),
		Mark:          unless(s.Mark, 0),
		Hash:          unless(s.Rxhash, 0),
		Queue:         unless(s.Queue, 0),
		VlanTCI:       unless(s.VlanTCI, 0),
		VlanPresent:   unless(flag(s.VlanPresent), false),
		Ifindex:       unless(s.Ifindex, 0),
		DevType:       unless(s.DevType, 0),
		NoDevice:      unless(flag(s.NoDevice), false),
		MacHeader:     unless(s.MacHeader, 0),
		NetworkHeader: unless(s.NetworkHeader, defaultNetworkHeader),
		Headroom:      unless(s.Headroom, headroomFor(s.MacHeader, s.NetworkHeader)),
		CPU:           unless(s.CPU, 0),
		Random:        unless(s.Random, 0),
	}
	if meta != (skbMeta{}) {
		text.Skb = &meta
	}
	return text
}

// UnmarshalJSON reads what MarshalJSON writes. Errors are *SkbError and name
// the field; unknown fields are errors, and so is a packet that fails Check.
func (s *Skb) UnmarshalJSON(data []byte) error {
	var text skbText
	if err := decodeStrict(data, &text); err != nil {
		return skbError(err)
	}
	return text.into(s)
}

// into sets s to what the text says.
func (t *skbText) into(s *Skb) error {
	if t.Packet == nil {
		return &SkbError{Field: "packet", Offset: -1, Reason: "is missing"}
	}
	meta := t.Skb
	if meta == nil {
		meta = &skbMeta{}
	}
	if meta.Hash != nil && meta.Rxhash != nil {
		return &SkbError{Field: "skb.rxhash", Offset: -1, Reason: "is another name of hash, which is there too"}
	}
	mac, network := or(meta.MacHeader, 0), or(meta.NetworkHeader, defaultNetworkHeader)
	read := Skb{
		Packet:        *t.Packet,
		Headlen:       or(t.Headlen, len(*t.Packet)),
		Frags:         t.Frags,
		MacHeader:     mac,
		NetworkHeader: network,
		Headroom:      or(meta.Headroom, headroomFor(mac, network)),
		Protocol:      or(meta.Protocol, 0),
		PktType:       or(meta.PktType, 0),
		Mark:          or(meta.Mark, 0),
		Rxhash:        or(meta.Hash, or(meta.Rxhash, 0)),
		Queue:         or(meta.Queue, 0),
		VlanTCI:       or(meta.VlanTCI, 0),
		VlanPresent:   bool(or(meta.VlanPresent, false)),
		VlanProto:     or(meta.VlanProto, 0),
		NoDevice:      bool(or(meta.NoDevice, false)),
		Ifindex:       or(meta.Ifindex, 0),
		DevType:       or(meta.DevType, 0),
		CPU:           or(meta.CPU, 0),
		Random:        or(meta.Random, 0),
	}
	if rest := len(read.Packet) - read.Headlen; len(read.Frags) == 0 && rest > 0 {
		read.Frags = []int{rest}
	}
	if len(read.Frags) == 0 {
		read.Frags = nil
	}
	if err := read.Check(); err != nil {
		return err
	}
	*s = read
	return nil
}

// headroomFor is the least headroom that the header offsets need.
func headroomFor(mac, network int) int { return max(0, -mac, -network) }

// unless returns nil for the default and a pointer to any other value.
func unless[T comparable](value, standard T) *T {
	if value == standard {
		return nil
	}
	return &value
}

// or returns what p points to, or the default for nil.
func or[T any](p *T, standard T) T {
	if p == nil {
		return standard
	}
	return *p
}

// decodeStrict decodes the one JSON value in data; unknown fields are errors.
func decodeStrict(data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return errors.New("there is more than one JSON value")
	}
	return nil
}

// skbError turns an error of encoding/json into a *SkbError.
func skbError(err error) error {
	err = inPacket(err)
	var (
		known *SkbError
		kind  *json.UnmarshalTypeError
	)
	if errors.As(err, &known) {
		return known
	}
	if errors.As(err, &kind) && kind.Field != "" {
		return &SkbError{Field: kind.Field, Offset: -1, Reason: "cannot be a " + kind.Value}
	}
	return &SkbError{Field: "packet record", Offset: -1, Reason: strings.TrimPrefix(err.Error(), "json: ")}
}

// inPacket says of an error in hex text that it is in the packet.
func inPacket(err error) error {
	var hex *HexError
	if errors.As(err, &hex) {
		return &SkbError{Field: "packet", Offset: hex.Offset, Reason: hex.Reason}
	}
	return err
}
