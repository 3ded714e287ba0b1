/* The part of the engine that runs in C: hooks that count and stop, and one
 * call that does a whole run. See shim.c. */
#ifndef KJIT_UC_SHIM_H
#define KJIT_UC_SHIM_H

#include <stdint.h>

/* A range of code whose blocks are counted. table[addr - base] is
 * size << 16 | instructions of the block that starts there, 0 if none was
 * translated yet. */
struct kuc_region {
	uint64_t base, len;
	uint32_t *table;
};

/* An instruction of the image that is about to be executed, and two registers
 * before it. */
struct kuc_step {
	uint64_t addr;
	uint32_t reg[2];
};

enum { KUC_REGIONS = 32, KUC_PAGES = 64, KUC_PAGE_BITS = 12, KUC_PAGE_MASK = 4095 };

/* The table of one page of a region, for the page that was met last of those
 * that fall on the same place of a cache. */
struct kuc_page {
	uint64_t number; /* 0: none */
	uint32_t *table;
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
	struct kuc_page page[KUC_PAGES];

	uint64_t budget;    /* blocks per input */
	uint64_t *insns;    /* per input of a window: executed instructions */
	uint8_t *flags;     /* per input: KUC_INEXACT and the like */
	uint32_t inputs;    /* length of both */
	uint32_t limit;     /* inputs of this window; the driver may not start more */

	/* State of the input that runs, or ran last. */
	uint32_t next;      /* inputs started so far */
	uint32_t running;
	uint64_t count, blocks;
	uint32_t flag;      /* KUC_INEXACT and the like */
	uint64_t block;     /* the block that was entered last */

	/* The trace of the input that ran last, if kuc_trace was called. */
	struct kuc_step *step;
	uint32_t steps, max_steps;
	int trace_reg[2];

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
int kuc_hook(struct kuc *k);
int kuc_trace(struct kuc *k, int reg0, int reg1, uint32_t max_steps);
int kuc_check(struct kuc *k, int stack_reg, uint64_t stack_pa, uint64_t stack_va, uint64_t stack_len, uint64_t reach);
int kuc_check_call(struct kuc *k, uint64_t addr);
int kuc_set_coprocessor(struct kuc *k, const struct kuc_state *value);
int kuc_save(struct kuc *k);
void kuc_forget_pages(struct kuc *k);
int kuc_set_buffer(void *uc, uint32_t bytes);
int kuc_flush_blocks(struct kuc *k);
int kuc_flush_tlb(struct kuc *k);
int kuc_translate(struct kuc *k, uint64_t addr, uint32_t *insns, uint32_t *size);
void kuc_run(struct kuc *k, uint64_t begin);
uint32_t kuc_last_block(struct kuc *k);
void kuc_stop(void *uc);
uint32_t kuc_context_words(struct kuc *k, const uint32_t **words);

#endif
