// Package capture reads packet captures as inputs for socket filters. The file
// formats are gopacket's business; this package decides what a damaged file, a
// truncated packet and a link type mean for a replay.
package capture

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// Packet is one captured packet.
type Packet struct {
	Data     []byte
	WireLen  int             // length on the wire; above len(Data) if the capture cut it
	LinkType layers.LinkType // what Data starts with
}

// Truncated reports whether the capture holds only the packet's beginning.
func (p *Packet) Truncated() bool { return p.WireLen > len(p.Data) }

// Error says where a capture stops being readable. The packets before that
// place are good.
type Error struct {
	File   string
	Packet int // 1-based number of the packet that cannot be read; 0 for the file header
	Reason string
}

func (e *Error) Error() string {
	if e.Packet == 0 {
		return fmt.Sprintf("%s: not a capture file: %s", e.File, e.Reason)
	}
	return fmt.Sprintf("%s: packet %d: %s", e.File, e.Packet, e.Reason)
}

// packetReader is what the readers of both formats have in common.
type packetReader interface {
	ReadPacketData() ([]byte, gopacket.CaptureInfo, error)
}

// Is reports whether data begins like a pcap or pcapng file, gzipped or not.
func Is(data []byte) bool {
	for _, magic := range magics {
		if bytes.HasPrefix(data, magic) {
			return true
		}
	}
	return false
}

var ngMagic = []byte{0x0a, 0x0d, 0x0d, 0x0a}

var magics = [][]byte{
	ngMagic,
	{0xa1, 0xb2, 0xc3, 0xd4}, {0xd4, 0xc3, 0xb2, 0xa1}, // microseconds
	{0xa1, 0xb2, 0x3c, 0x4d}, {0x4d, 0x3c, 0xb2, 0xa1}, // nanoseconds
	{0x1f, 0x8b}, // gzip
}

// Read returns the packets of a pcap or pcapng file. When the file is damaged
// it returns the packets before the damage and an *Error.
func Read(name string, r io.Reader) ([]Packet, error) {
	var packets []Packet
	err := Each(name, r, func(p Packet) error {
		packets = append(packets, p)
		return nil
	})
	return packets, err
}

// Each calls each for every packet of a pcap or pcapng file, up to the damage
// if it is damaged: then it returns an *Error. An error of each ends it and is
// returned as it is.
func Each(name string, r io.Reader, each func(Packet) error) error {
	reader, linkType, err := open(bufio.NewReader(r))
	if err != nil {
		return &Error{File: name, Reason: reason(err)}
	}
	for n := 1; ; n++ {
		data, info, err := reader.ReadPacketData()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return &Error{File: name, Packet: n, Reason: reason(err)}
		}
		p := Packet{Data: data, WireLen: info.Length, LinkType: linkType}
		if len(info.AncillaryData) > 0 {
			if lt, ok := info.AncillaryData[0].(layers.LinkType); ok {
				p.LinkType = lt
			}
		}
		if err := each(p); err != nil {
			return err
		}
	}
}

// open chooses the reader by the magic number. Both readers undo gzip, but the
// format inside decides which of them is needed.
func open(r *bufio.Reader) (packetReader, layers.LinkType, error) {
	plain, err := gunzip(r)
	if err != nil {
		return nil, 0, err
	}
	magic, err := plain.Peek(len(ngMagic))
	if err != nil {
		return nil, 0, io.ErrUnexpectedEOF
	}
	if bytes.Equal(magic, ngMagic) {
		ng, err := pcapgo.NewNgReader(plain, pcapgo.NgReaderOptions{WantMixedLinkType: true, SkipUnknownVersion: true})
		return ng, 0, err
	}
	old, err := pcapgo.NewReader(plain)
	if err != nil {
		return nil, 0, err
	}
	// The upper bits of the field are a frame check sequence length.
	return old, old.LinkType() & 0xffff, nil
}

// reason puts a library's error into words a user can act on.
func reason(err error) string {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "the file ends in the middle, or a length in it is wrong"
	default:
		return err.Error()
	}
}
