package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

func TestCommittedCaptureIsWhatGenMakes(t *testing.T) {
	want, err := os.ReadFile("../packets.pcapng")
	if err != nil {
		t.Fatal(err)
	}
	got, err := capture(packets())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatal("corpus/packets.pcapng is not what gen makes: run go run ./corpus/gen in the root of the module")
	}
}

// Each packet decodes to the layers that it was made of, as far as it is whole.
func TestPacketsDecode(t *testing.T) {
	names := map[string]bool{}
	for _, p := range packets() {
		if names[p.name] {
			t.Errorf("two packets are called %s", p.name)
		}
		names[p.name] = true
		data, err := p.bytes()
		if err != nil {
			t.Errorf("%s: %v", p.name, err)
			continue
		}
		if p.cut > 0 {
			continue
		}
		decoded := gopacket.NewPacket(data, layers.LayerTypeEthernet, gopacket.Default)
		for _, layer := range p.layers {
			kind := layer.LayerType()
			if kind == gopacket.LayerTypePayload || kind == layers.LayerTypeUDP && decoded.Layer(gopacket.LayerTypeFragment) != nil {
				continue
			}
			if decoded.Layer(kind) == nil {
				t.Errorf("%s has no %s when decoded: %v", p.name, kind, decoded)
			}
		}
	}
}
