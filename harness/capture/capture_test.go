package capture

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// frame is an Ethernet frame of protocol 0x0800.
var frame = append(bytes.Repeat([]byte{0xaa}, 12), 0x08, 0x00, 0x45, 0x00)

// pcapFile is a capture of frame, cut to caplen bytes, n times.
func pcapFile(t testing.TB, lt layers.LinkType, caplen, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := pcapgo.NewWriter(&b)
	if err := w.WriteFileHeader(65535, lt); err != nil {
		t.Fatal(err)
	}
	for range n {
		info := gopacket.CaptureInfo{Timestamp: time.Unix(1, 0), CaptureLength: caplen, Length: len(frame)}
		if err := w.WritePacket(info, frame[:caplen]); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func pcapngFile(t testing.TB, lts ...layers.LinkType) []byte {
	t.Helper()
	var b bytes.Buffer
	var w *pcapgo.NgWriter
	for i, lt := range lts {
		var err error
		if i == 0 {
			w, err = pcapgo.NewNgWriter(&b, lt)
		} else {
			_, err = w.AddInterface(pcapgo.NgInterface{LinkType: lt})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range lts {
		info := gopacket.CaptureInfo{Timestamp: time.Unix(1, 0), CaptureLength: len(frame), Length: len(frame), InterfaceIndex: i}
		if err := w.WritePacket(info, frame); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(data)
	z.Close()
	return b.Bytes()
}

func TestRead(t *testing.T) {
	whole := pcapFile(t, layers.LinkTypeEthernet, len(frame), 3)
	for _, tt := range []struct {
		desc    string
		data    []byte
		packets int
		links   []string
		err     *Error
	}{
		{"A pcap file is read to its end.", whole, 3, []string{"EN10MB"}, nil},
		{"A gzipped pcap file is read as what it holds.", gzipped(t, whole), 3, []string{"EN10MB"}, nil},
		{"A gzipped pcapng file is read as what it holds.", gzipped(t, pcapngFile(t, layers.LinkTypeEthernet)), 1, []string{"EN10MB"}, nil},
		{"Every packet of a pcapng file has the link type of its own interface.", pcapngFile(t, layers.LinkTypeEthernet, layers.LinkTypeRaw), 2, []string{"EN10MB", "RAW"}, nil},
		{"A file without packets is no error.", pcapFile(t, layers.LinkTypeNull, 0, 0), 0, nil, nil},
		{"A file cut inside its last packet gives the packets before it.", whole[:len(whole)-3], 2, []string{"EN10MB"}, &Error{"f", 3, "the file ends in the middle, or a length in it is wrong"}},
		{"A file cut inside a packet's header gives the packets before it.", whole[:len(whole)-len(frame)-3], 2, []string{"EN10MB"}, &Error{"f", 3, "the file ends in the middle, or a length in it is wrong"}},
		{"A file cut inside the file header is not a capture file.", whole[:20], 0, nil, &Error{"f", 0, "the file ends in the middle, or a length in it is wrong"}},
		{"An empty file is not a capture file.", nil, 0, nil, &Error{"f", 0, "the file ends in the middle, or a length in it is wrong"}},
	} {
		packets, err := Read("f", bytes.NewReader(tt.data))
		var got *Error
		errors.As(err, &got)
		if d := cmp.Diff(tt.err, got); d != "" {
			t.Errorf("%s error (-want +got):\n%s", tt.desc, d)
		}
		if len(packets) != tt.packets {
			t.Errorf("%s got %d packets, want %d", tt.desc, len(packets), tt.packets)
		}
		for i, lt := range tt.links {
			if got := LinkName(packets[i].LinkType); got != lt {
				t.Errorf("%s packet %d has link type %s, want %s", tt.desc, i, got, lt)
			}
		}
	}
}

func TestTruncated(t *testing.T) {
	packets, err := Read("f", bytes.NewReader(pcapFile(t, layers.LinkTypeEthernet, 10, 1)))
	if err != nil || len(packets) != 1 || !packets[0].Truncated() || packets[0].WireLen != len(frame) {
		t.Errorf("got %+v, %v; want one packet of 10 bytes cut from %d", packets, err, len(frame))
	}
}

func TestSkb(t *testing.T) {
	ip6 := []byte{0x60, 0, 0, 0}
	for _, tt := range []struct {
		desc     string
		link     layers.LinkType
		data     []byte
		header   int
		protocol uint16
	}{
		{"Ethernet has its protocol in the frame header.", layers.LinkTypeEthernet, frame, 14, 0x0800},
		{"A raw IP packet is its own network header and tells its version.", layers.LinkTypeRaw, ip6, 0, 0x86dd},
		{"Linux cooked captures have the protocol at the end of their header.", layers.LinkTypeLinuxSLL, append(make([]byte, 14), 0x86, 0xdd), 16, 0x86dd},
		{"A packet shorter than its link header has its network header at its end.", layers.LinkTypeEthernet, frame[:5], 5, 0},
		{"An unknown link type has the network header at the packet's start.", 999, frame, 0, 0},
		{"An empty packet is a packet.", layers.LinkTypeEthernet, nil, 0, 0},
	} {
		p := Packet{Data: tt.data, WireLen: len(tt.data), LinkType: tt.link}
		skb := p.Skb()
		if skb.NetworkHeader != tt.header || skb.Protocol != tt.protocol {
			t.Errorf("%s got network header %d, protocol %#x; want %d, %#x", tt.desc, skb.NetworkHeader, skb.Protocol, tt.header, tt.protocol)
		}
		if err := skb.Check(); err != nil {
			t.Errorf("%s the packet fails its check: %v", tt.desc, err)
		}
	}
}

// TestForeignCaptures reads captures that nobody here made, many of them
// damaged on purpose: every file gives packets or a typed error.
func TestForeignCaptures(t *testing.T) {
	files, _ := filepath.Glob("../../../shared/data/pcaps/*.pcap*")
	if len(files) == 0 {
		t.Skip("no foreign captures beside this checkout")
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		packets, err := readBody(t, data)
		if err == nil && len(packets) == 0 {
			t.Errorf("%s: neither packets nor an error", name)
		}
	}
}

// FuzzRead: any bytes give packets or an *Error.
func FuzzRead(f *testing.F) {
	whole := pcapFile(f, layers.LinkTypeEthernet, len(frame), 2)
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(pcapngFile(f, layers.LinkTypeEthernet, layers.LinkTypeRaw))
	f.Add(gzipped(f, whole))
	f.Fuzz(func(t *testing.T, data []byte) { readBody(t, data) })
}

// readBody is what the fuzz target and the tests of foreign files share.
func readBody(t *testing.T, data []byte) ([]Packet, error) {
	packets, err := Read("f", bytes.NewReader(data))
	var typed *Error
	if err != nil && !errors.As(err, &typed) {
		t.Errorf("error %v is no *capture.Error", err)
	}
	for i := range packets {
		if err := packets[i].Skb().Check(); err != nil && len(packets[i].Data) < 1<<16 {
			t.Errorf("packet %d: %v", i+1, err)
		}
	}
	return packets, err
}
