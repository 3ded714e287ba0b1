package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/capture"
	"github.com/kjit-project/kjit/kernelabi"
)

// maxInputFile bounds an input file that is not a capture.
const maxInputFile = 64 << 20

// metadata are the flags that set what a capture does not record.
type metadata struct {
	Frags     string  `placeholder:"HEAD[,LEN...]" help:"Bytes in the linear part, then in each page fragment; the last fragment takes the rest."`
	Protocol  *uint16 `placeholder:"N" help:"skb->protocol (default: from the link-layer header)."`
	PktType   *uint8  `name:"pkttype" placeholder:"N" help:"skb->pkt_type, 0 to 7."`
	Mark      *uint32 `placeholder:"N" help:"skb->mark."`
	Queue     *uint16 `placeholder:"N" help:"skb->queue_mapping."`
	Hash      *uint32 `placeholder:"N" help:"skb->hash (rxhash)."`
	Vlan      *uint16 `placeholder:"TCI" help:"VLAN tag kept beside the packet: vlan_tci, tag present."`
	VlanProto *uint16 `placeholder:"N" help:"skb->vlan_proto (0x8100, 0x88a8)."`
	Ifindex   *uint32 `placeholder:"N" help:"Interface number of the device."`
	DevType   *uint16 `placeholder:"N" help:"ARPHRD_ type of the device (1 Ethernet)."`
	NoDevice  bool    `help:"The packet has no device (skb->dev is NULL)."`
	CPU       *uint32 `name:"cpu" placeholder:"N" help:"Number of the processor the filter runs on."`
	Random    *uint32 `placeholder:"N" help:"What a random load gives."`
	Network   *int    `name:"network-header" placeholder:"OFFSET" help:"Network header from the packet's start (default: from the link type)."`
	Headroom  *int    `placeholder:"BYTES" help:"Bytes between skb->head and the packet; a header may lie there."`
	Mac       *int    `name:"mac-header" placeholder:"OFFSET" help:"Link-layer header from the packet's start (default 0)."`

	sizes []int // of --frags
}

// apply sets the flags that were given on one packet.
func (m *metadata) apply(skb *kernelabi.Skb) error {
	set(&skb.Protocol, m.Protocol)
	set(&skb.PktType, m.PktType)
	set(&skb.Mark, m.Mark)
	set(&skb.Queue, m.Queue)
	set(&skb.Rxhash, m.Hash)
	set(&skb.VlanProto, m.VlanProto)
	set(&skb.Ifindex, m.Ifindex)
	set(&skb.DevType, m.DevType)
	set(&skb.CPU, m.CPU)
	set(&skb.Random, m.Random)
	set(&skb.NetworkHeader, m.Network)
	set(&skb.MacHeader, m.Mac)
	set(&skb.Headroom, m.Headroom)
	if m.Vlan != nil {
		skb.VlanTCI, skb.VlanPresent = *m.Vlan, true
		if skb.VlanProto == 0 {
			skb.VlanProto = 0x8100
		}
	}
	skb.NoDevice = skb.NoDevice || m.NoDevice
	if m.sizes != nil {
		// Parts that the packet is too short for are left out, so that one value
		// serves a whole capture.
		*skb = *skb.Split(m.sizes[0], m.sizes[1:]...)
	}
	return skb.Check()
}

func set[T any](field *T, flag *T) {
	if flag != nil {
		*field = *flag
	}
}

// check finds what is wrong with the flags themselves, whatever the packet, and
// reads --frags.
func (m *metadata) check() error {
	if m.PktType != nil && *m.PktType > 7 {
		return fmt.Errorf("--pkttype %d does not fit in 3 bits: want 0 to 7", *m.PktType)
	}
	if m.Headroom != nil && (*m.Headroom < 0 || *m.Headroom > kernelabi.MaxHeader) {
		return fmt.Errorf("--headroom %d is not in 0..%d", *m.Headroom, kernelabi.MaxHeader)
	}
	if m.NoDevice && (m.Ifindex != nil || m.DevType != nil) {
		return errors.New("--no-device and the device's --ifindex or --dev-type exclude each other")
	}
	m.sizes = nil
	if m.Frags == "" {
		return nil
	}
	for _, part := range strings.Split(m.Frags, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 0 {
			return fmt.Errorf("--frags %q: %q is not a number of bytes: want HEAD[,LEN...], such as 14,20,40", m.Frags, part)
		}
		m.sizes = append(m.sizes, n)
	}
	return nil
}

// inputSet is what a replay runs on, with what is worth telling about it.
type inputSet struct {
	Inputs    []kernelabi.Input
	Files     []string // of each input
	LinkTypes map[string]int
	Truncated int // packets that their capture cut
	memory    int // bytes that captures take, roughly
}

// linkType is the one that tcpdump has to compile an expression for.
func (s *inputSet) linkType() string {
	if len(s.LinkTypes) == 1 {
		for lt := range s.LinkTypes {
			return lt
		}
	}
	return "EN10MB"
}

// noun is what one input is called.
func (s *inputSet) noun() string {
	if kind, _ := s.kind(); kind == bpf.Seccomp {
		return "system call"
	}
	return "packet"
}

// links names the link types of the captures.
func (s *inputSet) links() string {
	return strings.Join(slices.Sorted(maps.Keys(s.LinkTypes)), " and ")
}

// describe is the summary's phrase: "40 packets, EN10MB, 2 of them cut short by the capture".
func (s *inputSet) describe() string {
	text := plural(len(s.Inputs), s.noun())
	if len(s.LinkTypes) > 0 {
		text += ", " + s.links()
	}
	if s.Truncated > 0 {
		text += fmt.Sprintf(", %d of them cut short by the capture (run as if the packet ended there)", s.Truncated)
	}
	return text
}

func (s *inputSet) add(file string, skb *kernelabi.Skb, m *metadata) error {
	if err := m.apply(skb); err != nil {
		return badInput(fmt.Errorf("%s: packet %d: %w", file, len(s.Inputs)+1, err))
	}
	s.Inputs = append(s.Inputs, skb)
	s.Files = append(s.Files, file)
	return nil
}

// addRecord adds a record's own inputs.
func (s *inputSet) addRecord(rec *kernelabi.KernelImageRecord, m *metadata) error {
	for _, input := range rec.Inputs {
		if err := s.addInput("record", input, m); err != nil {
			return err
		}
	}
	return nil
}

// addInput adds an input of either kind. The metadata is that of packets.
func (s *inputSet) addInput(file string, input kernelabi.Input, m *metadata) error {
	if skb, ok := input.(*kernelabi.Skb); ok {
		return s.add(file, skb, m)
	}
	s.Inputs = append(s.Inputs, input)
	s.Files = append(s.Files, file)
	return nil
}

// kind is that of programs for the inputs, which must be all of one.
func (s *inputSet) kind() (bpf.Kind, error) {
	kind := bpf.Socket
	for i, input := range s.Inputs {
		k := harness.KindOf(input)
		if i > 0 && k != kind {
			return kind, badInput(fmt.Errorf("%s: input %d: packets and system calls cannot go to one program", s.Files[i], i+1))
		}
		kind = k
	}
	return kind, nil
}

// loadInputs reads captures, JSON Lines of inputs, and lines of hex, from
// files, from "-" and from --hex. With keepGoing a damaged capture counts up
// to its damage.
func loadInputs(ctx context.Context, files, hexes []string, m *metadata, keepGoing bool, std streams) (*inputSet, error) {
	set := &inputSet{LinkTypes: map[string]int{}}
	if err := m.check(); err != nil {
		return nil, badInput(err)
	}
	for _, name := range files {
		if err := set.load(ctx, name, m, keepGoing, std.in, std.err); err != nil {
			return nil, err
		}
	}
	for _, text := range hexes {
		packet, err := parseHex(text)
		if err != nil {
			return nil, badInput(fmt.Errorf("--hex %.40q: %w", text, err))
		}
		if err := set.add("--hex", kernelabi.NewSkb(packet), m); err != nil {
			return nil, err
		}
	}
	return set, nil
}

func (s *inputSet) load(ctx context.Context, name string, m *metadata, keepGoing bool, stdin io.Reader, stderr io.Writer) error {
	r, err := openInput(name, stdin)
	if err != nil {
		return badInput(err)
	}
	defer r.Close()
	buffered := bufio.NewReader(r)
	head, _ := buffered.Peek(4)
	if capture.Is(head) {
		return s.loadCapture(ctx, name, buffered, m, keepGoing, stderr)
	}
	data, err := readAll(name, buffered, maxInputFile)
	if err != nil {
		return err
	}
	return s.loadText(name, data, m)
}

// maxCaptures bounds what captures may take in memory, so that a small gzip of
// something huge is an error and not the end of the machine.
const (
	maxCaptures  = 4 << 30
	packetMemory = 256 // bytes that a packet takes beside its own
)

// loadCapture reads a pcap or pcapng file.
func (s *inputSet) loadCapture(ctx context.Context, name string, r io.Reader, m *metadata, keepGoing bool, stderr io.Writer) error {
	bar := newProgress(stderr, -1, "packets read")
	defer bar.close()
	before := len(s.Inputs)
	err := capture.Each(name, r, func(p capture.Packet) error {
		bar.add(1)
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.memory += len(p.Data) + packetMemory; s.memory > maxCaptures {
			return badInput(fmt.Errorf("%s: the captures hold more than %d GiB: replay them in parts", name, maxCaptures>>30))
		}
		if p.Truncated() {
			s.Truncated++
		}
		s.LinkTypes[capture.LinkName(p.LinkType)]++
		return s.add(name, p.Skb(), m)
	})
	good := len(s.Inputs) - before
	var damage *capture.Error
	switch {
	case err == nil && good == 0:
		fmt.Fprintf(stderr, "kjit: %s: no packets in it\n", name)
	case errors.As(err, &damage) && keepGoing:
		fmt.Fprintf(stderr, "kjit: %v\n", err)
		return nil
	case errors.As(err, &damage) && good > 0:
		return badInput(fmt.Errorf("%w (the %s before it can be read: --keep-going runs those)", err, plural(good, "packet")))
	}
	return err
}

func openInput(name string, stdin io.Reader) (io.ReadCloser, error) {
	switch {
	case name == "-":
		return io.NopCloser(stdin), nil
	case name == corpusPrefix+"packets":
		return io.NopCloser(bytes.NewReader(corpus.PacketsPcapng())), nil
	}
	return os.Open(name)
}

// loadText reads one input per line: a JSON object, or hex. Empty lines and
// lines that begin with # are passed over.
func (s *inputSet) loadText(name string, data []byte, m *metadata) error {
	for n, line := range bytes.Split(data, []byte("\n")) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		input, err := parseInput(line)
		if err != nil {
			return badInput(fmt.Errorf("%s:%d: %w", name, n+1, err))
		}
		if err := s.addInput(name, input, m); err != nil {
			return err
		}
	}
	return nil
}

// parseInput reads one input: an object with a packet or with the number of a
// system call, or a packet in hex.
func parseInput(line []byte) (kernelabi.Input, error) {
	if line[0] != '{' {
		packet, err := parseHex(string(line))
		return kernelabi.NewSkb(packet), err
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(line, &fields) == nil && fields["nr"] != nil {
		call := new(kernelabi.Syscall)
		return call, json.Unmarshal(line, call)
	}
	skb := new(kernelabi.Skb)
	return skb, json.Unmarshal(line, skb)
}

// parseHex reads hex digits with blanks, colons or 0x between them.
func parseHex(text string) ([]byte, error) {
	text = strings.NewReplacer(" ", "", "\t", "", ":", "", "0x", "", ",", "").Replace(text)
	packet, err := hex.DecodeString(text)
	var bad hex.InvalidByteError
	switch {
	case errors.As(err, &bad):
		return nil, fmt.Errorf("%q is no hex digit", rune(bad))
	case err != nil:
		return nil, errors.New("an odd number of hex digits")
	}
	return packet, nil
}
