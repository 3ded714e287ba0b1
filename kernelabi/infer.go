package kernelabi

import "encoding/binary"

// InferLayout returns where data, len and data_len are in struct sk_buff for an
// image with packet loads that was compiled from a converted program: the
// prologue loads them in this order (measured on Linux 6.1 and 6.18). ok is
// false for images without such a prologue.
func (i *Image) InferLayout() (layout Layout, ok bool) {
	var data, length, dataLen int
	switch i.Profile.Arch {
	case X86_64:
		data, length, dataLen, ok = firstLoadsX86(i.Code)
	case ARMv5, ARMv6, ARMv7:
		data, length, dataLen, ok = firstLoadsARM(i.Code)
	}
	// data_len is behind len in every kernel so far.
	if !ok || dataLen != length+4 {
		return nil, false
	}
	return Layout{SkbData: data, SkbLen: length, SkbDataLen: dataLen}, true
}

// prologueBytes is how far the loads are from the start at most.
const prologueBytes = 128

// firstLoadsARM finds the first three ldr r6, [r4, #n], which nothing else can be.
func firstLoadsARM(code []byte) (data, length, dataLen int, ok bool) {
	var found []int
	for at := 0; at+4 <= len(code) && at < 4*prologueBytes; at += 4 {
		if w := binary.LittleEndian.Uint32(code[at:]); w&0xfffff000 == 0xe5946000 {
			found = append(found, int(w&0xfff))
		}
	}
	if len(found) < 3 {
		return 0, 0, 0, false
	}
	return found[0], found[1], found[2], true
}

// The loads of x86_64 up to their displacement, which has 8 bits or, with the
// bits 0x40 of the last byte turned into 0x80, 32.
var (
	loadDataX86    = []byte{0x4c, 0x8b, 0x73} // mov r14, [rbx+n]
	loadLenX86     = []byte{0x44, 0x8b, 0x7b} // mov r15d, [rbx+n]
	loadDataLenX86 = []byte{0x8b, 0x73}       // mov esi, [rbx+n]
)

// firstLoadsX86 finds the three loads, one directly behind the other.
func firstLoadsX86(code []byte) (data, length, dataLen int, ok bool) {
	for at := 0; at < min(len(code), prologueBytes); at++ {
		rest := code[at:]
		if data, rest, ok = loadX86(rest, loadDataX86); !ok {
			continue
		}
		if length, rest, ok = loadX86(rest, loadLenX86); !ok {
			continue
		}
		if dataLen, _, ok = loadX86(rest, loadDataLenX86); ok {
			return data, length, dataLen, true
		}
	}
	return 0, 0, 0, false
}

// loadX86 reads one load and returns its displacement and the code behind it.
func loadX86(code, op []byte) (disp int, rest []byte, ok bool) {
	n := len(op)
	if len(code) < n+1 || string(code[:n-1]) != string(op[:n-1]) {
		return 0, nil, false
	}
	switch code[n-1] {
	case op[n-1]:
		return int(int8(code[n])), code[n+1:], true
	case op[n-1] ^ 0xc0:
		if len(code) >= n+4 {
			return int(int32(binary.LittleEndian.Uint32(code[n:]))), code[n+4:], true
		}
	}
	return 0, nil, false
}
