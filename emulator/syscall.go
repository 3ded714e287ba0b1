package emulator

import "github.com/kjit-project/kjit/kernelabi"

// System calls in guest memory: struct seccomp_data at the end of a page, with
// a guard page behind, like the linear part of a packet.

// partSyscall is an extent's part that is no part of a packet.
const partSyscall = -1

// writeSyscall puts a system call into slot i, if there is room, and returns
// its address.
func (p *packets) writeSyscall(i int, s *kernelabi.Syscall) (va uint64, ok bool) {
	if p.smallUsed == len(p.small) {
		return 0, false
	}
	p.slots[i].extent = nil
	var data [64]byte
	bytes := s.Append(data[:0])
	va, mem := p.part(len(bytes), i, partSyscall)
	copy(mem, bytes)
	return va, true
}

// point makes addr what the code is called with for input i.
func (m *Machine) point(i int, addr uint64) {
	if s := &m.packets.slots[i]; s.input != addr {
		s.input = addr
		put64(m.control[ctlDescriptors+i*descSize+descSkb:], addr)
	}
}
