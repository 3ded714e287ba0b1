package guestcode

import "encoding/binary"

// stubBytes is the room of the entry in front of an image's code.
const stubBytes = 32

// enterX86 writes: lea second(%rip), %rsi; lea third(%rip), %rdx; jmp code.
func enterX86(image []byte, _ uint64, second, third int) {
	b := append(image[:0], 0x48, 0x8d, 0x35)
	b = binary.LittleEndian.AppendUint32(b, uint32(second-(len(b)+4)))
	b = append(b, 0x48, 0x8d, 0x15)
	b = binary.LittleEndian.AppendUint32(b, uint32(third-(len(b)+4)))
	b = append(b, 0xe9)
	binary.LittleEndian.AppendUint32(b, uint32(stubBytes-(len(b)+4)))
}

// enterARM writes: ldr r1, =second; ldr r2, =third; b code; with the two words
// behind the branch.
func enterARM(image []byte, base uint64, second, third int) {
	put := binary.LittleEndian.PutUint32
	put(image[0:], 0xe59f1004)                          // ldr r1, [pc, #4]: the word at 12
	put(image[4:], 0xe59f2004)                          // ldr r2, [pc, #4]: the word at 16
	put(image[8:], 0xea000000|uint32(stubBytes-8-8)>>2) // b to the code
	put(image[12:], uint32(base)+uint32(second))
	put(image[16:], uint32(base)+uint32(third))
}
