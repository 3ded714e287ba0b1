package qemu

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// kernelFile writes a file that begins as a kernel: words by their offsets.
func kernelFile(t *testing.T, words map[int]uint32, beside ...string) string {
	t.Helper()
	dir := t.TempDir()
	head := make([]byte, 0x400)
	for at, word := range words {
		binary.LittleEndian.PutUint32(head[at:], word)
	}
	for _, name := range beside {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "vmlinuz")
	if err := os.WriteFile(file, head, 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

var (
	bzImage = map[int]uint32{0x202: 0x53726448, 0x236: 1}
	zImage  = map[int]uint32{0x24: 0x016f2818}
)

func TestMachineFor(t *testing.T) {
	elfFile := func(machine uint32) map[int]uint32 { return map[int]uint32{0: 0x464c457f, 16: 2 | machine<<16} }
	for _, test := range []struct {
		desc   string
		kernel map[int]uint32
		beside string
		want   string // of QEMU's arguments, or of the error
	}{
		{"A bzImage is for a PC.", bzImage, "", "-M pc"},
		{"An ELF file for x86_64 too.", elfFile(62), "", "-M pc"},
		{"A zImage alone is for many machines, among them the virtual one.", zImage, "", "-M virt"},
		{"A zImage for ARMv6 has its board beside it.", zImage, "bcm2835-rpi-zero.dtb", "-M raspi0"},
		{"So has one for ARMv5.", zImage, "versatile-pb.dtb", "-M versatilepb"},
		{"A device tree is nothing for a PC.", bzImage, "versatile-pb.dtb", "-M pc"},
		{"A zImage is named in place of ELF.", elfFile(40), "", "an ELF file for ARM, which QEMU does not boot: name arch/arm/boot/zImage"},
		{"Other ELF files are none.", elfFile(8), "", "an ELF file for neither"},
		{"32-bit x86 is none.", map[int]uint32{0x202: 0x53726448}, "", "a kernel for 32-bit x86"},
		{"arm64 is none.", map[int]uint32{0x38: 0x644d5241}, "", "a kernel for arm64"},
		{"Zeros are none.", nil, "", "neither a bzImage nor a zImage"},
	} {
		var beside []string
		if test.beside != "" {
			beside = append(beside, test.beside)
		}
		m, err := machineFor(kernelFile(t, test.kernel, beside...))
		var got string
		var none *KernelError
		switch {
		case err == nil:
			got = strings.Join(m.args, " ")
		case errors.As(err, &none):
			got = none.Reason
		default:
			t.Fatal(err)
		}
		if !strings.HasPrefix(got, test.want) {
			t.Errorf("%s\n got %s\nwant %s", test.desc, got, test.want)
		}
	}
}

func TestKernelErrors(t *testing.T) {
	dir := t.TempDir()
	short := filepath.Join(dir, "short")
	if err := os.WriteFile(short, []byte("MZ"), 0o666); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		filepath.Join(dir, "none"): "none: no such file or directory; ci/qemu-kernels.sh fetches kernels of Debian into .qemu/",
		short:                      "short: it is too short for a kernel; ",
		dir:                        ": is a directory; ",
	} {
		if _, err := machineFor(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
}
