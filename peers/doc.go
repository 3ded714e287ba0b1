// Package peers makes runners of other implementations of classic BPF, so that
// the reference interpreter has somebody to disagree with:
//
//   - [NewXNet]: the virtual machine of golang.org/x/net/bpf
//   - [NewGVisor] and [NewGVisorOptimized]: gvisor.dev/gvisor/pkg/bpf, which
//     runs seccomp filters there
//   - [NewLibpcap]: bpf_filter of the libpcap that is installed
//
// It also has [NewLibseccomp], which makes filters of seccomp profiles as runc
// does, for kjit's own to be compared with.
//
// It is a module of its own: who uses kjit need not download these.
//
// # What is compared
//
// A peer gets the programs that today's Linux takes. Those with something that
// the peer cannot express (NEG, an ancillary load, a negative offset) are "not
// run", with the reason. On all others its value has to be the one of
// [Peer.Predict]: the value of the reference, but for the listed [Deviation]s
// of the peer, which are modelled, not excused: the model says which value
// comes out because of one.
//
// Packets are given as one piece of bytes; the peers know no fragments, and
// offsets from 0 on do not show them. Seccomp filters are given their
// struct seccomp_data in the byte order in which the peer loads words, so that
// the peers that load big endian only can run them as well: Linux lets through
// nothing but aligned words.
package peers
