/*
 * An interpreter of classic BPF as kernels had it before there was a JIT:
 * one switch over dense opcodes, packet loads through a pointer that is found
 * for each of them. It is freestanding and position independent. kjit runs it
 * as a guest, so that "without a JIT" is measured in the same unit as "with".
 *
 * build.sh compiles it; harness/guestcode puts a program and an env behind it.
 */
#include "guest.h"

/* The opcodes, in the order of harness/guestcode/opcodes.go. */
enum op {
	RET_K, RET_A,
	ADD_K, SUB_K, MUL_K, DIV_K, MOD_K, AND_K, OR_K, XOR_K, LSH_K, RSH_K,
	ADD_X, SUB_X, MUL_X, DIV_X, MOD_X, AND_X, OR_X, XOR_X, LSH_X, RSH_X,
	NEG,
	JA, JEQ_K, JGT_K, JGE_K, JSET_K, JEQ_X, JGT_X, JGE_X, JSET_X,
	LD_W_ABS, LD_H_ABS, LD_B_ABS, LD_W_IND, LD_H_IND, LD_B_IND, LDX_MSH,
	LD_LEN, LDX_LEN, LD_IMM, LDX_IMM, LD_MEM, LDX_MEM, ST, STX, TAX, TXA,
	LD_SECCOMP,
	EXT_PROTOCOL, EXT_PKTTYPE, EXT_IFINDEX, EXT_MARK, EXT_QUEUE, EXT_HATYPE,
	EXT_RXHASH, EXT_CPU, EXT_VLAN_TCI, EXT_VLAN_PR, EXT_POFF,
};

struct insn {
	u16 op;
	u8 jt, jf;
	u32 k;
};

/* What the interpreter has to know of its kernel: addresses and offsets. */
struct env {
	addr_t copy_bits;   /* int (skb, offset, to, len); 0 where get is there */
	addr_t pointer_neg; /* void *(skb, k, size) */
	addr_t get[3];      /* ARM: u64 (skb, offset), high word not 0: failed; by log2 of the size */
	addr_t poff;        /* u32 (skb) */
	u32 len, data_len, data;
	u32 protocol, pkt_type, dev, mark, queue, rxhash, vlan_tci;
	u32 ifindex, hatype;
	u32 cpu; /* x86_64: per-CPU offset; ARM: in thread_info */
	u32 thread_size;
	u32 seccomp; /* the context is a struct seccomp_data */
	u32 smp;     /* 0: the number of the processor is 0 */
};

#define FIELD(type, base, offset) (*(const type *)((const u8 *)(base) + (offset)))

static inline u32 be16(const u8 *p) { return (u32)p[0] << 8 | p[1]; }
static inline u32 be32(const u8 *p)
{
	return (u32)p[0] << 24 | (u32)p[1] << 16 | (u32)p[2] << 8 | p[3];
}

#ifdef __arm__
/* ARMv5 has no divide instruction, and some ARMv7 have none. */
static __attribute__((noinline)) u32 divide(u32 n, u32 d, u32 *rest)
{
	u32 q = 0, bit = 1;

	while (d < n && !(d >> 31)) {
		d <<= 1;
		bit <<= 1;
	}
	for (; bit; bit >>= 1, d >>= 1)
		if (n >= d) {
			n -= d;
			q |= bit;
		}
	*rest = n;
	return q;
}
static u32 quotient(u32 n, u32 d) { u32 rest; return divide(n, d, &rest); }
static u32 remainder(u32 n, u32 d) { u32 rest; divide(n, d, &rest); return rest; }

static u32 cpu_number(const struct env *e)
{
	addr_t sp;

	__asm__("mov %0, sp" : "=r"(sp));
	return e->smp ? FIELD(u32, sp & ~(addr_t)(e->thread_size - 1), e->cpu) : 0;
}
#else
static u32 quotient(u32 n, u32 d) { return n / d; }
static u32 remainder(u32 n, u32 d) { return n % d; }

static u32 cpu_number(const struct env *e)
{
	u32 cpu = 0;

	if (e->smp)
		__asm__("movl %%gs:(%1), %0" : "=r"(cpu) : "r"((addr_t)e->cpu));
	return cpu;
}
#endif

/* A load that does not lie in the linear part. It returns 0 for failure. */
static __attribute__((noinline)) int slow(const void *skb, s32 k, u32 size, u32 *value, const struct env *e)
{
	u8 buf[4];
	const u8 *p = buf;

	if (e->get[0]) {
		u64 (*get)(const void *, s32) = (void *)e->get[size >> 1];
		u64 got = get(skb, k);

		*value = (u32)got;
		return !(u32)(got >> 32);
	}
	if (k < 0) {
		const u8 *(*pointer)(const void *, s32, u32) = (void *)e->pointer_neg;

		p = pointer(skb, k, size);
		if (!p)
			return 0;
	} else {
		int (*copy)(const void *, s32, void *, s32) = (void *)e->copy_bits;

		if (copy(skb, k, buf, size) < 0)
			return 0;
	}
	*value = size == 4 ? be32(p) : size == 2 ? be16(p) : p[0];
	return 1;
}

/* The address of size bytes at k when they lie in the linear part, else 0. */
static inline const u8 *linear(const void *skb, s32 k, u32 size, const struct env *e)
{
	u32 headlen = FIELD(u32, skb, e->len) - FIELD(u32, skb, e->data_len);

	if (k < 0 || (u32)k + size > headlen)
		return 0;
	return FIELD(const u8 *, skb, e->data) + k;
}

u32 run(const void *skb, const struct insn *pc, const struct env *e)
{
	u32 A = 0, X = 0, k, tmp;
	u32 mem[16];
	const u8 *p;

	for (;; pc++) {
		k = pc->k;
		switch (pc->op) {
		case RET_K: return k;
		case RET_A: return A;
		case ADD_X: A += X; continue;
		case ADD_K: A += k; continue;
		case SUB_X: A -= X; continue;
		case SUB_K: A -= k; continue;
		case MUL_X: A *= X; continue;
		case MUL_K: A *= k; continue;
		case DIV_X:
			if (!X)
				return 0;
			A = quotient(A, X);
			continue;
		case DIV_K: A = quotient(A, k); continue;
		case MOD_X:
			if (!X)
				return 0;
			A = remainder(A, X);
			continue;
		case MOD_K: A = remainder(A, k); continue;
		case AND_X: A &= X; continue;
		case AND_K: A &= k; continue;
		case OR_X: A |= X; continue;
		case OR_K: A |= k; continue;
		case XOR_X: A ^= X; continue;
		case XOR_K: A ^= k; continue;
		case LSH_X: A <<= X & 31; continue;
		case LSH_K: A <<= k & 31; continue;
		case RSH_X: A >>= X & 31; continue;
		case RSH_K: A >>= k & 31; continue;
		case NEG: A = -A; continue;
		case JA: pc += k; continue;
		case JEQ_K: pc += A == k ? pc->jt : pc->jf; continue;
		case JGT_K: pc += A > k ? pc->jt : pc->jf; continue;
		case JGE_K: pc += A >= k ? pc->jt : pc->jf; continue;
		case JSET_K: pc += A & k ? pc->jt : pc->jf; continue;
		case JEQ_X: pc += A == X ? pc->jt : pc->jf; continue;
		case JGT_X: pc += A > X ? pc->jt : pc->jf; continue;
		case JGE_X: pc += A >= X ? pc->jt : pc->jf; continue;
		case JSET_X: pc += A & X ? pc->jt : pc->jf; continue;
		case LD_W_IND: k += X; /* fall through */
		case LD_W_ABS:
			p = linear(skb, k, 4, e);
			if (p)
				A = be32(p);
			else if (slow(skb, k, 4, &tmp, e))
				A = tmp;
			else
				return 0;
			continue;
		case LD_H_IND: k += X; /* fall through */
		case LD_H_ABS:
			p = linear(skb, k, 2, e);
			if (p)
				A = be16(p);
			else if (slow(skb, k, 2, &tmp, e))
				A = tmp;
			else
				return 0;
			continue;
		case LD_B_IND: k += X; /* fall through */
		case LD_B_ABS:
			p = linear(skb, k, 1, e);
			if (p)
				A = *p;
			else if (slow(skb, k, 1, &tmp, e))
				A = tmp;
			else
				return 0;
			continue;
		case LDX_MSH:
			p = linear(skb, k, 1, e);
			if (p)
				tmp = *p;
			else if (!slow(skb, k, 1, &tmp, e))
				return 0;
			X = (tmp & 0xf) << 2;
			continue;
		case LD_LEN: A = e->seccomp ? 64 : FIELD(u32, skb, e->len); continue;
		case LDX_LEN: X = e->seccomp ? 64 : FIELD(u32, skb, e->len); continue;
		case LD_IMM: A = k; continue;
		case LDX_IMM: X = k; continue;
		case LD_MEM: A = mem[k]; continue;
		case LDX_MEM: X = mem[k]; continue;
		case ST: mem[k] = A; continue;
		case STX: mem[k] = X; continue;
		case TAX: X = A; continue;
		case TXA: A = X; continue;
		case LD_SECCOMP: A = FIELD(u32, skb, k); continue;
		case EXT_PROTOCOL: A = be16((const u8 *)skb + e->protocol); continue;
		case EXT_PKTTYPE: A = FIELD(u8, skb, e->pkt_type) & 7; continue;
		case EXT_IFINDEX:
		case EXT_HATYPE: {
			const void *dev = FIELD(const void *, skb, e->dev);

			if (!dev)
				return 0;
			A = pc->op == EXT_IFINDEX ? FIELD(u32, dev, e->ifindex) : FIELD(u16, dev, e->hatype);
			continue;
		}
		case EXT_MARK: A = FIELD(u32, skb, e->mark); continue;
		case EXT_QUEUE: A = FIELD(u16, skb, e->queue); continue;
		case EXT_RXHASH: A = FIELD(u32, skb, e->rxhash); continue;
		case EXT_CPU: A = cpu_number(e); continue;
		case EXT_VLAN_TCI: A = FIELD(u16, skb, e->vlan_tci) & ~0x1000u; continue;
		case EXT_VLAN_PR: A = FIELD(u16, skb, e->vlan_tci) >> 12 & 1; continue;
		case EXT_POFF: {
			u32 (*poff)(const void *) = (void *)e->poff;

			A = poff(skb);
			continue;
		}
		default: __builtin_unreachable(); /* checked before */
		}
	}
}
