/* The part of the engine that runs in C: hooks that count and stop, and one
 * call that does a whole run. See shim.c. */
#ifndef KJIT_UC_SHIM_H
#define KJIT_UC_SHIM_H

#include <stdint.h>

/* A range of code whose blocks are counted. table[addr - base] is
 * identity << 32 | size << 16 | instructions of the block that starts there, 0
 * if none was translated yet. */
struct kuc_region {
	uint64_t base, len;
	uint64_t *table;
};

/* What the image's blocks are known by, wherever in it they are: the rule that
 * an instruction of the program was compiled by and the offset in its code.
 * Instruction i's code starts at offset pcs[i]; pcs[n] is the end of the last. */
struct kuc_rules {
	uint64_t start; /* address of the image */
	uint32_t n;     /* 0: not known */
	uint32_t *pcs, *rules;
};

enum { KUC_TRACED = 20, KUC_STACK_WORDS = 32 };

/* An instruction of the image that is about to be executed, with the traced
 * registers before it and the stack from its pointer up. */
struct kuc_step {
	uint64_t addr;
	uint64_t reg[KUC_TRACED];
	uint32_t stack[KUC_STACK_WORDS];
};

enum { KUC_EDGES = 1 << 16, KUC_REGIONS = 32, KUC_CACHE = 256 };

/* What an input has executed so far, in one word: blocks << KUC_BLOCKS |
 * instructions. A block has at most 512, so neither overflows before there are
 * KUC_MANY blocks. */
enum { KUC_BLOCKS = 37, KUC_MANY = 1 << 26 };

/* A block that ran. */
struct kuc_block {
	uint64_t key;   /* of address and size; 0: none */
	uint64_t step;  /* what is executed with it: one block and its instructions */
	uint64_t entry; /* in its region's table */
	uint64_t pad;   /* for the size, a power of 2 */
};

/* A register that is read after every run. What its number does not tell of a
 * coprocessor register is in front of the value, as Unicorn wants it. */
struct kuc_state {
	uint32_t cp, is64, sec, crn, crm, opc1, opc2;
	uint64_t value;
};

enum { KUC_STATES = 8 };

/* What is known about an input beside its count. */
enum {
	KUC_INEXACT = 1,   /* a block was met whose length is unknown */
	KUC_UNALIGNED = 2, /* an access that was not aligned to its size */
	KUC_STACK = 4,     /* a call of a watched routine with sp no multiple of 8 */
	KUC_BELOW = 8      /* a write to the stack below its pointer */
};

/* Why a run was stopped by a hook. */
enum { KUC_NONE, KUC_INTERRUPT, KUC_BUDGET, KUC_DRIVER };

struct kuc {
	void *uc;
	void *clean, *after; /* contexts: restored before every run, read after a fault */

	/* The batch driver: [driver, driver+driver_len), and three of its blocks:
	 * the one that starts the first input, the one that a finished input
	 * returns to and that starts the next, and the one that runs instead of the
	 * next input. */
	uint64_t driver, driver_len, first, leave, pause;
	struct kuc_region region[KUC_REGIONS]; /* region[0] is the image */
	uint32_t regions;
	struct kuc_block cache[KUC_CACHE];

	uint64_t translated; /* blocks, ever */
	uint64_t budget;    /* blocks per input */
	uint64_t *insns;    /* per input of a window: executed instructions */
	uint8_t *flags;     /* per input: KUC_INEXACT and the like */
	uint32_t inputs;    /* length of both */
	uint64_t ram;       /* bytes of memory, from physical address 0 on */
	uint32_t limit;     /* inputs of this window; the driver may not start more */

	/* State of the input that runs, or ran last. */
	uint32_t next;      /* inputs started so far */
	uint32_t running;
	uint64_t done;      /* executed, but for the next two */
	uint64_t blocks, count;
	uint64_t most;      /* on_other_block is to look at the budget when done is this */
	uint32_t flag;      /* KUC_INEXACT and the like */
	uint64_t block;     /* the block that was entered last */

	int watch; /* watch_block has something to do: set before kuc_save */

	/* Edges between blocks, if edge is not NULL: which of KUC_EDGES there were. */
	uint8_t *edge;
	uint32_t *found;    /* the last KUC_EDGES new ones: the n-th is found[n % KUC_EDGES] */
	uint64_t edges;     /* how many were new */
	uint32_t previous;  /* identity of the block before, turned */
	struct kuc_rules rules;

	/* By offset in the image's pages, if runs is not NULL: how often the block
	 * there ran, and how many instructions were executed elsewhere between it
	 * and the next one of the image. */
	uint64_t *runs, *called;
	uint64_t site;      /* offset of the image's block that ran last */

	/* The trace of the input that ran last, if kuc_trace was called. */
	struct kuc_step *step;
	uint32_t steps, max_steps;
	int trace_reg[KUC_TRACED];
	uint32_t traced;
	int trace_sp;              /* the stack pointer's place among them */
	const uint8_t *trace_stack; /* the stack in host memory, and where the guest has it */
	uint64_t trace_va, trace_len;

	/* The stack, if kuc_check was called: a push writes at most reach bytes
	 * below the pointer before it moves it. */
	uint64_t stack_pa, stack_va, stack_len, reach;

	/* The outcome of kuc_run. */
	uint32_t reason, interrupt;
	int32_t error;
	struct kuc_state state[KUC_STATES];
	int state_reg[KUC_STATES];
	uint32_t states;
	int stack_reg; /* of kuc_check */
};

struct kuc *kuc_new(void *uc, uint32_t inputs);
void kuc_free(struct kuc *k);
void kuc_trim(void);
int kuc_hook(struct kuc *k);
int kuc_trace(struct kuc *k, const int *regs, uint32_t n, uint32_t max_steps);
int kuc_check(struct kuc *k, int stack_reg, uint64_t stack_pa, uint64_t stack_va, uint64_t stack_len, uint64_t reach);
int kuc_check_call(struct kuc *k, uint64_t addr);
int kuc_cover(struct kuc *k, uint8_t *edge, uint32_t *found, uint32_t insns);
int kuc_set_coprocessor(struct kuc *k, const struct kuc_state *value);
int kuc_save(struct kuc *k);
uint64_t kuc_blocks(struct kuc *k);
uint64_t kuc_count(struct kuc *k);
void kuc_forget_blocks(struct kuc *k);
int kuc_set_buffer(void *uc, uint32_t bytes);
int kuc_flush_tlb(struct kuc *k);
int kuc_translate(struct kuc *k, uint64_t addr, uint32_t *insns, uint32_t *size);
int kuc_forget(struct kuc *k, uint64_t lo, uint64_t hi);
void kuc_run(struct kuc *k, uint64_t begin);
uint64_t kuc_last_block(struct kuc *k);
void kuc_stop(void *uc);
uint32_t kuc_context_words(struct kuc *k, const uint32_t **words);

#endif
