package main

import (
	"bytes"
	"fmt"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// packet is one row of the corpus. The comment of the capture file is
// "name: about".
type packet struct {
	name   string
	about  string
	layers []gopacket.SerializableLayer
	cut    int // bytes kept, for frames cut short; 0 keeps all
}

// start is the time of the first packet; each further one is a millisecond later.
var start = time.Date(2011, time.April, 28, 0, 0, 0, 0, time.UTC)

// capture makes a pcapng file of the packets. Nothing in it depends on the
// machine or the time.
func capture(packets []packet) ([]byte, error) {
	var file bytes.Buffer
	w, err := pcapgo.NewNgWriterInterface(&file,
		pcapgo.NgInterface{Name: "corpus", LinkType: layers.LinkTypeEthernet, TimestampResolution: 9},
		pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{Application: "kjit corpus/gen"}})
	if err != nil {
		return nil, err
	}
	for i, p := range packets {
		data, err := p.bytes()
		if err != nil {
			return nil, fmt.Errorf("packet %s: %w", p.name, err)
		}
		info := gopacket.CaptureInfo{
			Timestamp:     start.Add(time.Duration(i) * time.Millisecond),
			CaptureLength: len(data),
			Length:        len(data),
		}
		options := pcapgo.NgPacketOptions{Comments: []string{p.name + ": " + p.about}}
		if err := w.WritePacketWithOptions(info, data, options); err != nil {
			return nil, fmt.Errorf("packet %s: %w", p.name, err)
		}
	}
	if err := w.Flush(); err != nil {
		return nil, err
	}
	return file.Bytes(), nil
}

// bytes serialises the layers, with lengths and checksums computed. A transport
// layer takes its checksum over the network layer in front of it.
func (p packet) bytes() ([]byte, error) {
	var network gopacket.NetworkLayer
	for _, layer := range p.layers {
		switch l := layer.(type) {
		case gopacket.NetworkLayer:
			network = l
		case interface {
			SetNetworkLayerForChecksum(gopacket.NetworkLayer) error
		}:
			if err := l.SetNetworkLayerForChecksum(network); err != nil {
				return nil, err
			}
		}
	}
	buffer := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buffer, options, p.layers...); err != nil {
		return nil, err
	}
	data := buffer.Bytes()
	if p.cut > 0 {
		data = data[:p.cut]
	}
	return data, nil
}
