package corpus

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/kjit-project/kjit/kernelabi"
)

const packetFile = "packets.pcapng"

// Packet is one packet of the corpus: an Ethernet frame as a packet socket sees
// it, all linear.
type Packet struct {
	Name  string // "tcp-syn-out"
	About string // one line
	Skb   *kernelabi.Skb
}

// PacketsPcapng returns the capture file that the packets come from; the comment
// of each packet there is "name: about".
func PacketsPcapng() []byte {
	data, err := files.ReadFile(packetFile)
	if err != nil {
		panic(err) // the file is embedded
	}
	return data
}

// Packets returns all packets in the order of the capture.
func Packets() ([]Packet, error) {
	r, err := pcapgo.NewNgReader(bytes.NewReader(PacketsPcapng()), pcapgo.DefaultNgReaderOptions)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", packetFile, err)
	}
	var packets []Packet
	for {
		data, _, options, err := r.ReadPacketDataWithOptions()
		if err == io.EOF {
			return packets, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: packet %d: %w", packetFile, len(packets)+1, err)
		}
		name, about, ok := strings.Cut(strings.Join(options.Comments, " "), ": ")
		if !ok {
			return nil, fmt.Errorf("%s: packet %d has no comment with its name", packetFile, len(packets)+1)
		}
		packets = append(packets, Packet{name, about, kernelabi.NewSkb(data)})
	}
}
