/*
 * A small JIT for x86_64 that speaks kjit's plugin protocol (docs/plugin.md).
 *
 *     cc -O2 -Wall -o tinyjit tinyjit.c
 *     kjit replay 'ip' trace.pcap --jit exec:./tinyjit
 *
 * It takes loads at fixed offsets, the packet's length, a few operations with
 * constants, jumps and returns, and refuses the rest. Every load goes through
 * the kernel's skb_copy_bits. The program's A is in eax, its X in ebx.
 *
 * The frame:  -8(%rbp)  the caller's rbx    -16(%rbp)  the skb
 *            -24(%rbp)  what was loaded
 */
#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_INSNS = 4096, MAX_CODE = 64 * MAX_INSNS };

struct insn {
	unsigned code, jt, jf;
	uint32_t k;
};

static struct insn prog[MAX_INSNS];
static int insns;

static unsigned char code[MAX_CODE];
static int size;                  /* bytes of code so far */
static int start[MAX_INSNS + 1];  /* offset of each instruction, and of the end */
static int leave_at;              /* offset of the epilogue */

static uint64_t base, copy_bits;  /* addresses; 0: there is no such symbol */
static long len_offset;           /* of skb->len; -1: unknown */
static int calls_copy_bits;

static void emit(const char *bytes, int n)
{
	memcpy(code + size, bytes, n);
	size += n;
}
#define EMIT(text) emit(text, sizeof text - 1)

static void emit32(uint32_t v)
{
	for (int i = 0; i < 4; i++)
		code[size++] = v >> 8 * i;
}

/* A displacement of 32 bits to an offset in the code. */
static void emit_to(int offset) { emit32(offset - (size + 4)); }

/* A <- size bytes at k, or leave with 0. Returns a reason to refuse. */
static const char *load(uint32_t k, int bytes)
{
	if (k >= 0x80000000)
		return "a negative offset or an ancillary load";
	if (!copy_bits)
		return "the kernel has no symbol skb_copy_bits";
	calls_copy_bits = 1;
	EMIT("\x48\x8b\x7d\xf0");         /* mov -16(%rbp),%rdi */
	EMIT("\xbe"), emit32(k);          /* mov $k,%esi */
	EMIT("\x48\x8d\x55\xe8");         /* lea -24(%rbp),%rdx */
	EMIT("\xb9"), emit32(bytes);      /* mov $bytes,%ecx */
	EMIT("\xe8"), emit32(copy_bits - (base + size + 4)); /* call skb_copy_bits */
	EMIT("\x85\xc0\x79\x07");         /* test %eax,%eax; jns over the next two */
	EMIT("\x31\xc0\xe9"), emit_to(leave_at); /* xor %eax,%eax; jmp leave */
	switch (bytes) {
	case 4:
		EMIT("\x8b\x45\xe8\x0f\xc8");         /* mov -24(%rbp),%eax; bswap %eax */
		break;
	case 2:
		EMIT("\x0f\xb7\x45\xe8");             /* movzwl -24(%rbp),%eax */
		EMIT("\x66\xc1\xc0\x08");             /* rol $8,%ax */
		break;
	default:
		EMIT("\x0f\xb6\x45\xe8");             /* movzbl -24(%rbp),%eax */
	}
	return NULL;
}

/* Compare A with k and jump on the condition, whose near jump is 0f cc. */
static void jump(int pc, const char *test, const char *cc)
{
	emit(test, 1), emit32(prog[pc].k);
	EMIT("\x0f"), emit(cc, 1), emit_to(start[pc + 1 + prog[pc].jt]);
	EMIT("\xe9"), emit_to(start[pc + 1 + prog[pc].jf]);
}

/* The code of one instruction. Returns a reason to refuse. */
static const char *compile_insn(int pc)
{
	uint32_t k = prog[pc].k;

	switch (prog[pc].code) {
	case 0x20: return load(k, 4);                    /* ld [k] */
	case 0x28: return load(k, 2);                    /* ldh [k] */
	case 0x30: return load(k, 1);                    /* ldb [k] */
	case 0x80:                                       /* ld len */
		if (len_offset < 0)
			return "the layout has no sk_buff.len";
		EMIT("\x48\x8b\x7d\xf0\x8b\x87"), emit32(len_offset);
		break;
	case 0x00: EMIT("\xb8"), emit32(k); break;       /* ld #k: mov $k,%eax */
	case 0x01: EMIT("\xbb"), emit32(k); break;       /* ldx #k: mov $k,%ebx */
	case 0x04: EMIT("\x05"), emit32(k); break;       /* add #k */
	case 0x14: EMIT("\x2d"), emit32(k); break;       /* sub #k */
	case 0x44: EMIT("\x0d"), emit32(k); break;       /* or #k */
	case 0x54: EMIT("\x25"), emit32(k); break;       /* and #k */
	case 0x0c: EMIT("\x01\xd8"); break;              /* add x */
	case 0x07: EMIT("\x89\xc3"); break;              /* tax */
	case 0x87: EMIT("\x89\xd8"); break;              /* txa */
	case 0x05: EMIT("\xe9"), emit_to(start[pc + 1 + k]); break; /* ja */
	case 0x15: jump(pc, "\x3d", "\x84"); break;      /* jeq: cmp $k,%eax; je */
	case 0x25: jump(pc, "\x3d", "\x87"); break;      /* jgt: ja, unsigned */
	case 0x35: jump(pc, "\x3d", "\x83"); break;      /* jge: jae */
	case 0x45: jump(pc, "\xa9", "\x85"); break;      /* jset: test $k,%eax; jne */
	case 0x06: EMIT("\xb8"), emit32(k);              /* ret #k, and on */
		/* fall through */
	case 0x16: EMIT("\xe9"), emit_to(leave_at); break; /* ret a */
	default:
		return "no rule for this opcode";
	}
	return NULL;
}

/*
 * Every instruction has the same size wherever it jumps to, so that the first
 * pass finds the offsets and the second one writes the code.
 */
static const char *compile(int *pc)
{
	calls_copy_bits = 0;
	for (int pass = 0; pass < 2; pass++) {
		size = 0;
		EMIT("\x55\x48\x89\xe5");          /* push %rbp; mov %rsp,%rbp */
		EMIT("\x53\x48\x83\xec\x18");      /* push %rbx; sub $24,%rsp */
		EMIT("\x48\x89\x7d\xf0");          /* mov %rdi,-16(%rbp) */
		EMIT("\x31\xc0\x31\xdb");          /* A = X = 0 */
		for (*pc = 0; *pc < insns; ++*pc) {
			const char *reason;

			start[*pc] = size;
			if ((reason = compile_insn(*pc)) != NULL)
				return reason;
		}
		start[insns] = leave_at = size;
		EMIT("\x48\x8b\x5d\xf8\xc9\xc3");  /* mov -8(%rbp),%rbx; leave; ret */
	}
	return NULL;
}

/*
 * kjit writes no white space and no escapes, so that a field can be found by
 * its name. Returns what is behind it, or NULL.
 */
static const char *field(const char *request, const char *name)
{
	const char *at = strstr(request, name);

	return at ? at + strlen(name) : NULL;
}

static int parse_program(const char *at)
{
	for (insns = 0; insns < MAX_INSNS && *at == '['; insns++) {
		struct insn *i = &prog[insns];
		int n = 0;

		if (sscanf(at, "[%u,%u,%u,%u]%n", &i->code, &i->jt, &i->jf, &i->k, &n) != 4 || n == 0)
			return -1;
		at += n;
		if (*at == ',')
			at++;
	}
	return insns > 0 && *at == ']' ? 0 : -1;
}

static void answer_compile(unsigned long long id, const char *request)
{
	const char *at, *reason;
	int pc;

	at = field(request, "\"program\":[");
	if (!at || parse_program(at) < 0) {
		printf("{\"id\":%llu,\"error\":{\"reason\":\"the program cannot be read\"}}\n", id);
		return;
	}
	at = field(request, "\"base\":\"");
	base = at ? strtoull(at, NULL, 16) : 0;
	at = field(request, "\"skb_copy_bits\":\"");
	copy_bits = at ? strtoull(at, NULL, 16) : 0;
	at = field(request, "\"sk_buff.len\":");
	len_offset = at ? strtol(at, NULL, 10) : -1;
	if (strstr(request, "\"kind\":\"seccomp\"")) {
		printf("{\"id\":%llu,\"refusal\":{\"reason\":\"a seccomp filter\"}}\n", id);
		return;
	}
	if ((reason = compile(&pc)) != NULL) {
		printf("{\"id\":%llu,\"refusal\":{\"reason\":\"%s\",\"pc\":%d}}\n", id, reason, pc);
		return;
	}
	printf("{\"id\":%llu,\"image\":\"", id);
	for (int i = 0; i < size; i++)
		printf("%02x", code[i]);
	printf("\",\"pc_map\":[");
	for (int i = 0; i <= insns; i++)
		printf(i ? ",%d" : "%d", start[i]);
	printf("]");
	if (calls_copy_bits)
		printf(",\"externs\":{\"skb_copy_bits\":\"0x%llx\"}", (unsigned long long)copy_bits);
	printf("}\n");
}

int main(void)
{
	char *line = NULL;
	size_t room = 0;

	while (getline(&line, &room, stdin) > 0) {
		const char *at = field(line, "\"id\":");
		unsigned long long id = at ? strtoull(at, NULL, 10) : 0;

		if (strstr(line, "\"op\":\"hello\""))
			printf("{\"id\":%llu,\"protocol\":1,\"name\":\"tinyjit-c\",\"archs\":[\"x86_64\"],\"standard_registers\":true}\n", id);
		else if (strstr(line, "\"op\":\"compile\""))
			answer_compile(id, line);
		else
			printf("{\"id\":%llu,\"error\":{\"reason\":\"unknown op\"}}\n", id);
		fflush(stdout); /* kjit waits for the line */
	}
	free(line);
	return 0;
}
