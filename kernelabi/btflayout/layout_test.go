package btflayout

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/kernelabi"
)

var (
	u32 = &btf.Int{Name: "unsigned int", Size: 4}
	u16 = &btf.Int{Name: "unsigned short", Size: 2}
	ptr = &btf.Pointer{Target: &btf.Void{}}
)

// sample is a small kernel: members beside and below others, in unions without
// a name, as bits.
func sample(dataName string) []btf.Type {
	return []btf.Type{
		&btf.Struct{Name: "sk_buff", Size: 64, Members: []btf.Member{
			{Type: &btf.Union{Size: 16, Members: []btf.Member{
				{Type: &btf.Struct{Size: 16, Members: []btf.Member{
					{Name: "next", Type: ptr},
					{Type: &btf.Union{Size: 8, Members: []btf.Member{{Name: "dev", Type: ptr}}}, Offset: 64},
				}}},
			}}},
			{Name: "len", Type: u32, Offset: 128},
			{Name: "data_len", Type: u32, Offset: 160},
			{Type: &btf.Union{Size: 16, Members: []btf.Member{
				{Type: &btf.Struct{Size: 16, Members: []btf.Member{
					{Name: "pkt_type", Type: u16, Offset: 16, BitfieldSize: 3},
					{Name: "vlan_present", Type: u16, Offset: 24, BitfieldSize: 1},
					{Name: "rxhash", Type: u32, Offset: 32},
				}}},
				{Name: "headers", Type: &btf.Struct{Size: 16, Members: []btf.Member{{Name: "mark", Type: u32, Offset: 96}}}},
			}}, Offset: 192},
			{Name: dataName, Type: ptr, Offset: 384},
		}},
		&btf.Struct{Name: "net_device", Size: 32, Members: []btf.Member{{Name: "ifindex", Type: u32, Offset: 32}, {Name: "type", Type: u16, Offset: 64}}},
	}
}

func encode(t testing.TB, types []btf.Type) []byte {
	t.Helper()
	builder, err := btf.NewBuilder(types, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := builder.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestRead(t *testing.T) {
	got, err := Read("btf", encode(t, sample("data")))
	if err != nil {
		t.Fatal(err)
	}
	want := kernelabi.Layout{
		kernelabi.SkbDev: 8, kernelabi.SkbLen: 16, kernelabi.SkbDataLen: 20, kernelabi.SkbPktType: 26,
		kernelabi.SkbVlanPresent: 27, kernelabi.SkbRxhash: 28, kernelabi.SkbData: 48, kernelabi.SkbSize: 64,
		kernelabi.DevIfindex: 4, kernelabi.DevType: 8,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReadErrors(t *testing.T) {
	for _, tt := range []struct {
		desc string
		data []byte
		want string
	}{
		{"Bytes that are no BTF are none.", []byte("hello"), "f: no BTF can be read"},
		{"An empty file is none.", nil, "f: no BTF can be read"},
		{"A kernel without packets is none.", encode(t, sample("data")[1:]), "f: it describes no struct sk_buff"},
		{"A packet has data.", encode(t, sample("bytes")), "f: its struct sk_buff has no member for sk_buff.data"},
	} {
		_, err := Read("f", tt.data)
		var typed *Error
		if !errors.As(err, &typed) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s got %v, want %q", tt.desc, err, tt.want)
		}
	}
}

// The kernel that the test runs on, if it has BTF; of 6.18 the layout is known.
func TestReadThisKernel(t *testing.T) {
	data, err := os.ReadFile("/sys/kernel/btf/vmlinux")
	if err != nil {
		t.Skipf("this kernel has no BTF to read: %v", err)
	}
	got, err := Read("vmlinux", data)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{kernelabi.SkbLen, kernelabi.SkbData, kernelabi.SkbDev, kernelabi.SkbPktType, kernelabi.SkbProtocol, kernelabi.DevIfindex} {
		if _, ok := got[field]; !ok {
			t.Errorf("no %s", field)
		}
	}
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	t.Logf("%s: %v", strings.TrimSpace(string(release)), got)
	p, err := kernelabi.ProfileByName("linux-6.18-x86_64")
	if err != nil || got[kernelabi.SkbSize] != p.Layout[kernelabi.SkbSize] || !strings.HasPrefix(string(release), "6.18.") {
		return // another kernel, or other options
	}
	if diff := cmp.Diff(p.Layout, got); diff != "" {
		t.Errorf("(-profile +BTF):\n%s", diff)
	}
}

// FuzzRead: any bytes give a layout, or an *Error.
func FuzzRead(f *testing.F) {
	f.Add(encode(f, sample("data")))
	f.Fuzz(func(t *testing.T, data []byte) {
		layout, err := Read("f", data)
		var typed *Error
		if err != nil && !errors.As(err, &typed) || err == nil && layout[kernelabi.SkbSize] < 0 {
			t.Errorf("%v, %v", layout, err)
		}
	})
}
