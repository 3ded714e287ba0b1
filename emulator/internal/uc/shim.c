/* What the Go binding of Unicorn lacks, and what would be slow in Go: one call
 * per run of a batch, and hooks in C. The few functions of Unicorn are declared
 * here with plain types, so that no header of it is needed; an enum argument is
 * an int in the C ABIs we build for. */
#include "shim.h"

#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__ /* which the others define */
#include <malloc.h>
#endif

int uc_ctl(void *uc, int control, ...);
int uc_hook_add(void *uc, size_t *hook, int type, void *callback, void *user,
		uint64_t begin, uint64_t end, ...);
int uc_emu_start(void *uc, uint64_t begin, uint64_t until, uint64_t timeout, size_t count);
int uc_emu_stop(void *uc);
int uc_reg_read(void *uc, int reg, void *value);
int uc_reg_write(void *uc, int reg, const void *value);
int uc_reg_read_batch(void *uc, const int *regs, void **values, int count);
int uc_context_alloc(void *uc, void **context);
int uc_context_save(void *uc, void *context);
int uc_context_restore(void *uc, void *context);
size_t uc_context_size(void *uc);
int uc_context_free(void *context);

/* uc_ctl's control word is type | arguments << 26 | direction << 30. */
#define CTL(type, args, dir) ((int)((uint32_t)(type) | (uint32_t)(args) << 26 | (uint32_t)(dir) << 30))
#define CTL_REQUEST_CACHE CTL(8, 2, 3)
#define CTL_REMOVE_CACHE CTL(9, 2, 1)
#define CTL_FLUSH_TB CTL(10, 0, 1)
#define CTL_FLUSH_TLB CTL(11, 0, 1)
#define CTL_BUFFER_SIZE CTL(13, 1, 1)

enum {
	HOOK_INTR = 1 << 0, HOOK_CODE = 1 << 2, HOOK_BLOCK = 1 << 3,
	HOOK_FETCH_PROTECTED = 1 << 9, HOOK_READ = 1 << 10, HOOK_WRITE = 1 << 11, HOOK_EDGE_GENERATED = 1 << 15
};
enum { ARM_COPROCESSOR = 139 };

enum { UC_ERR_NOMEM = 1, MEM_WRITE = 17 };

#define ONE_BLOCK ((uint64_t)1 << KUC_BLOCKS)

/* A translated block as Unicorn describes it. */
struct block {
	uint64_t pc;
	uint16_t insns, size;
};

static struct kuc_region *region_of(struct kuc *k, uint64_t addr)
{
	for (uint32_t i = 0; i < k->regions; i++)
		if (addr - k->region[i].base < k->region[i].len)
			return &k->region[i];
	return NULL;
}

static void halt(struct kuc *k, uint32_t reason)
{
	if (k->reason == KUC_NONE)
		k->reason = reason;
	uc_emu_stop(k->uc);
}

static uint32_t mix(uint32_t a, uint32_t b)
{
	uint64_t x = ((uint64_t)a << 32 | b) * 0x9e3779b97f4a7c15u;
	x ^= x >> 29;
	return (uint32_t)(x * 0xbf58476d1ce4e5b9u >> 32);
}

/* What the block at pc is known by. */
static uint32_t identity(const struct kuc *k, uint64_t pc)
{
	const struct kuc_rules *r = &k->rules;
	uint64_t at = pc - r->start;
	if (at >= k->region[0].len)
		return mix(~0u, (uint32_t)pc);
	if (r->n == 0)
		return mix(0, (uint32_t)at);
	if (at < r->pcs[0])
		return mix(1, (uint32_t)at);
	uint32_t lo = 0, hi = r->n; /* the last i with pcs[i] <= at is in lo..hi */
	while (lo < hi) {
		uint32_t i = lo + (hi - lo + 1) / 2;
		if (r->pcs[i] <= at)
			lo = i;
		else
			hi = i - 1;
	}
	return mix(lo == r->n ? 2 : r->rules[lo], (uint32_t)at - r->pcs[lo]);
}

/* Where a block is remembered; the one before it there is forgotten. */
static struct kuc_block *place_of(struct kuc *k, uint64_t addr)
{
	return &k->cache[(addr ^ addr >> 8) % KUC_CACHE];
}

/* No two blocks of kernels or user space have the same key: only the upper 16 bits
 * of their addresses are alike or the complement of each other, and sizes are small. */
static uint64_t key_of(uint64_t addr, uint32_t size) { return addr ^ (uint64_t)size << 48; }

static void note_block(struct kuc *k, uint64_t pc, uint32_t insns, uint32_t size)
{
	struct kuc_region *r = region_of(k, pc);
	struct kuc_block *b = place_of(k, pc);
	k->translated++;
	if (r)
		r->table[pc - r->base] = (uint64_t)(k->edge ? identity(k, pc) : 0) << 32 | size << 16 | insns;
	b->key = 0; /* it may be this one, and say something else now */
}

/* Called when a block has been translated, before it runs for the first time. */
static void on_translated(void *uc, struct block *block, struct block *previous, void *user)
{
	(void)uc;
	(void)previous;
	note_block(user, block->pc, block->insns, block->size);
}

/* Blocks and instructions that the running input has executed. */
uint64_t kuc_blocks(struct kuc *k) { return k->blocks + (k->done >> KUC_BLOCKS); }
uint64_t kuc_count(struct kuc *k) { return k->count + (k->done & (ONE_BLOCK - 1)); }

/* What done may come to with so many blocks left. */
static uint64_t most_of(uint64_t left) { return (left < KUC_MANY ? left : KUC_MANY) * ONE_BLOCK; }

/* Makes room in done, and finds out when to look at the budget again. */
static void settle(struct kuc *k)
{
	k->count = kuc_count(k);
	k->blocks = kuc_blocks(k);
	k->done = 0;
	k->most = most_of(k->budget > k->blocks ? k->budget - k->blocks : 0);
}

/* An input starts, if there is one more. */
static void start_input(struct kuc *k)
{
	if ((k->running = k->next < k->limit)) {
		k->next++;
		k->steps = 0;
	}
	k->done = k->blocks = k->count = 0;
	k->most = most_of(k->budget);
	k->flag = 0;
	k->previous = 0;
	k->site = 0;
}

/* The driver's own blocks: they tell where one input ends and the next starts. */
static void on_driver(struct kuc *k, uint64_t addr)
{
	if (addr == k->leave && k->running) {
		k->insns[k->next - 1] = kuc_count(k);
		k->flags[k->next - 1] = (uint8_t)k->flag;
		start_input(k);
	} else if (addr == k->first && !k->running && k->next < k->limit) {
		start_input(k);
	} else if (addr == k->pause && !kuc_blocks(k)) {
		/* What started in leave did not start after all. */
		k->next -= k->running;
		k->running = 0;
	} else if (k->running || addr == k->first) {
		/* The code under test jumped into the driver, or changed its data. */
		halt(k, KUC_DRIVER);
	}
}

/* The block's entry in its region's table, 0 outside of regions. */
static uint64_t entry_of(struct kuc *k, uint64_t addr)
{
	struct kuc_region *r = region_of(k, addr);
	return r ? r->table[addr - r->base] : 0;
}

/* Takes down that a block runs, for whoever wants to know more than counts. */
static void watch_block(struct kuc *k, uint64_t addr, uint64_t entry)
{
	if (k->edge) {
		uint32_t id = (uint32_t)(entry >> 32);
		uint8_t *e = &k->edge[(id ^ k->previous) % KUC_EDGES];
		if (!*e) {
			*e = 1;
			k->found[k->edges++ % KUC_EDGES] = (uint32_t)(e - k->edge);
		}
		k->previous = id << 1 | id >> 31; /* so that a-b is not b-a */
	}
	if (k->runs) {
		uint64_t at = addr - k->region[0].base;
		if (at < k->region[0].len) {
			k->runs[at]++;
			k->site = at;
		} else {
			k->called[k->site] += entry & 0xffff;
		}
	}
}

/* What on_block does not do itself. */
static __attribute__((noinline)) void on_other_block(struct kuc *k, uint64_t addr, uint32_t size)
{
	if (addr - k->driver < k->driver_len) {
		on_driver(k, addr);
		return;
	}
	struct kuc_block *b = place_of(k, addr);
	b->key = key_of(addr, size);
	b->entry = entry_of(k, addr);
	b->step = ONE_BLOCK | (b->entry & 0xffff);
	if ((b->entry >> 16 & 0xffff) != size) {
		b->key = 0;
		b->step = ONE_BLOCK;
		k->flag |= KUC_INEXACT;
	}
	k->block = addr;
	if (k->done >= k->most) {
		settle(k);
		if (!k->most)
			halt(k, KUC_BUDGET);
	}
	k->done += b->step;
	if (b->key)
		watch_block(k, addr, b->entry);
}

/* Counts a block that is remembered. The driver's blocks never are. */
static inline const struct kuc_block *count_block(struct kuc *k, uint64_t addr, uint32_t size)
{
	const struct kuc_block *b = place_of(k, addr);
	if (b->key != key_of(addr, size) || k->done >= k->most)
		return NULL;
	k->done += b->step;
	k->block = addr;
	return b;
}

/* Called for every block that runs: its 1 ns is most of what the counting costs. */
static void on_block(void *uc, uint64_t addr, uint32_t size, void *user)
{
	(void)uc;
	if (!count_block(user, addr, size))
		on_other_block(user, addr, size);
}

/* The same for an engine that watches. */
static void on_watched_block(void *uc, uint64_t addr, uint32_t size, void *user)
{
	(void)uc;
	const struct kuc_block *b = count_block(user, addr, size);
	if (b)
		watch_block(user, addr, b->entry);
	else
		on_other_block(user, addr, size);
}

static void on_interrupt(void *uc, uint32_t number, void *user)
{
	struct kuc *k = user;
	(void)uc;
	if (k->reason == KUC_NONE)
		k->interrupt = number;
	halt(k, KUC_INTERRUPT);
}

struct kuc *kuc_new(void *uc, uint32_t inputs)
{
	struct kuc *k = calloc(1, sizeof *k);
	if (!k)
		return NULL;
	k->uc = uc;
	k->inputs = inputs;
	k->insns = calloc(inputs, sizeof *k->insns);
	k->flags = calloc(inputs, sizeof *k->flags);
	if (!k->insns || !k->flags) {
		kuc_free(k);
		return NULL;
	}
	return k;
}

/* Gives free memory back. Engines are made and freed by whatever thread Go has at
 * hand, in glibc each with a heap of its own, and what one leaves free there others
 * do not take. */
void kuc_trim(void)
{
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}

void kuc_free(struct kuc *k)
{
	if (k->clean)
		uc_context_free(k->clean);
	if (k->after)
		uc_context_free(k->after);
	free(k->insns);
	free(k->flags);
	free(k->step);
	free(k->rules.pcs);
	free(k->rules.rules);
	free(k);
}

static int on_never(void *uc, int type, uint64_t addr, int size, int64_t value, void *user)
{
	(void)uc;
	(void)type;
	(void)addr;
	(void)size;
	(void)value;
	(void)user;
	return 0;
}

int kuc_hook(struct kuc *k)
{
	size_t hook;
	int err = uc_hook_add(k->uc, &hook, HOOK_INTR, (void *)on_interrupt, k, 1, 0);
	if (!err)
		err = uc_hook_add(k->uc, &hook, HOOK_EDGE_GENERATED, (void *)on_translated, k, 1, 0);
	/* For every block that it translates, Unicorn goes through its whole TLB,
	 * 10 us on ARM, in case the block's page was written to by the guest before.
	 * Pages of code are read-only here. It does not if there is a hook of
	 * accesses for the block's virtual address, whatever it is called for: this
	 * one is for fetches from physical memory that is not executable, and all
	 * is. Unlike others it does not slow accesses down, as long as it is not
	 * for physical addresses where memory is. */
	if (!err)
		err = uc_hook_add(k->uc, &hook, HOOK_FETCH_PROTECTED, (void *)on_never, k, k->ram, UINT64_MAX);
	return err;
}

/* Called before every instruction of a tracing engine. */
static void on_instruction(void *uc, uint64_t addr, uint32_t size, void *user)
{
	struct kuc *k = user;
	(void)size;
	if (!k->running || k->steps == k->max_steps || addr - k->region[0].base >= k->region[0].len)
		return;
	struct kuc_step *s = &k->step[k->steps++];
	s->addr = addr;
	void *into[KUC_TRACED];
	memset(s->reg, 0, sizeof s->reg); /* narrow registers write their own size only */
	for (uint32_t i = 0; i < k->traced; i++)
		into[i] = &s->reg[i];
	uc_reg_read_batch(uc, k->trace_reg, into, (int)k->traced);
	uint64_t at = s->reg[k->trace_sp] - k->trace_va;
	memset(s->stack, 0, sizeof s->stack);
	if (at < k->trace_len) {
		uint64_t left = k->trace_len - at;
		memcpy(s->stack, k->trace_stack + at, left < sizeof s->stack ? left : sizeof s->stack);
	}
}

/* Makes the engine record what it executes, which is slow. trace_sp and
 * trace_stack are to be set as well. */
int kuc_trace(struct kuc *k, const int *regs, uint32_t n, uint32_t max_steps)
{
	size_t hook;
	k->step = calloc(max_steps, sizeof *k->step);
	if (!k->step)
		return UC_ERR_NOMEM;
	k->max_steps = max_steps;
	memcpy(k->trace_reg, regs, n * sizeof *regs);
	k->traced = n;
	return uc_hook_add(k->uc, &hook, HOOK_CODE, (void *)on_instruction, k, 1, 0);
}

static void on_access(void *uc, int type, uint64_t addr, int size, int64_t value, void *user)
{
	struct kuc *k = user;
	(void)value;
	if (!k->running)
		return;
	if (addr & (uint64_t)(size - 1))
		k->flag |= KUC_UNALIGNED;
	if (type == MEM_WRITE && kuc_blocks(k) && addr - k->stack_pa < k->stack_len) {
		uint64_t sp = 0;
		uc_reg_read(uc, k->stack_reg, &sp);
		if (addr - k->stack_pa + k->stack_va < sp - k->reach)
			k->flag |= KUC_BELOW;
	}
}

static void on_call(void *uc, uint64_t addr, uint32_t size, void *user)
{
	struct kuc *k = user;
	uint64_t sp = 0;
	(void)addr;
	(void)size;
	uc_reg_read(uc, k->stack_reg, &sp);
	if (k->running && sp & 7)
		k->flag |= KUC_STACK;
}

/* Makes the engine look at every access, which is slow: its alignment, which
 * Unicorn itself never enforces, and whether it writes where an interrupt would
 * destroy it. Hooks see physical addresses. */
int kuc_check(struct kuc *k, int stack_reg, uint64_t stack_pa, uint64_t stack_va, uint64_t stack_len, uint64_t reach)
{
	size_t hook;
	k->stack_reg = stack_reg;
	k->stack_pa = stack_pa;
	k->stack_va = stack_va;
	k->stack_len = stack_len;
	k->reach = reach;
	return uc_hook_add(k->uc, &hook, HOOK_READ | HOOK_WRITE, (void *)on_access, k, 1, 0);
}

/* And at that of the stack when the routine at addr is called. */
int kuc_check_call(struct kuc *k, uint64_t addr)
{
	size_t hook;
	return uc_hook_add(k->uc, &hook, HOOK_CODE, (void *)on_call, k, addr, addr);
}

int kuc_set_coprocessor(struct kuc *k, const struct kuc_state *value)
{
	return uc_reg_write(k->uc, ARM_COPROCESSOR, value);
}

/* Saves the state that every run starts from. Before the first run, it adds the hook
 * of blocks. */
int kuc_save(struct kuc *k)
{
	int err = 0;
	size_t hook;
	if (!k->clean) {
		err = uc_context_alloc(k->uc, &k->clean);
		if (!err)
			err = uc_context_alloc(k->uc, &k->after);
		if (!err)
			err = uc_hook_add(k->uc, &hook, HOOK_BLOCK, (void *)(k->watch ? on_watched_block : on_block), k, 1, 0);
	}
	return err ? err : uc_context_save(k->uc, k->clean);
}

/* Makes the engine take down edges, in KUC_EDGES bytes at edge and as many words
 * at found, for programs of up to so many instructions. */
int kuc_cover(struct kuc *k, uint8_t *edge, uint32_t *found, uint32_t insns)
{
	k->rules.pcs = calloc(insns + 1, sizeof *k->rules.pcs);
	k->rules.rules = calloc(insns, sizeof *k->rules.rules);
	if (!k->rules.pcs || !k->rules.rules)
		return UC_ERR_NOMEM;
	k->edge = edge;
	k->found = found;
	k->watch = 1;
	return 0;
}

/* Regions have changed. */
void kuc_forget_blocks(struct kuc *k) { memset(k->cache, 0, sizeof k->cache); }

int kuc_set_buffer(void *uc, uint32_t bytes) { return uc_ctl(uc, CTL_BUFFER_SIZE, bytes); }
int kuc_flush_tlb(struct kuc *k) { return uc_ctl(k->uc, CTL_FLUSH_TLB); }

/* The block that starts at addr, which must be mapped executable up to the
 * block's end: a fault in here would end the process. */
int kuc_translate(struct kuc *k, uint64_t addr, uint32_t *insns, uint32_t *size)
{
	struct block block = {0};
	/* With a full buffer the engine would leave through the jmp_buf of a run that
	 * is over. It is emptied before, which costs all translations. */
	int err = uc_ctl(k->uc, CTL_FLUSH_TB);
	if (!err)
		err = uc_ctl(k->uc, CTL_REQUEST_CACHE, addr, &block);
	if (err)
		return err;
	/* on_translated does not see blocks made this way. */
	note_block(k, block.pc, block.insns, block.size);
	*insns = block.insns;
	*size = block.size;
	return 0;
}

/* Drops the translations of [lo, hi), which must be mapped, in adjoining frames:
 * elsewhere this does nothing. */
int kuc_forget(struct kuc *k, uint64_t lo, uint64_t hi)
{
	int err = uc_context_restore(k->uc, k->clean); /* the registers say what is mapped */
	return err ? err : uc_ctl(k->uc, CTL_REMOVE_CACHE, lo, hi);
}

void kuc_run(struct kuc *k, uint64_t begin)
{
	void *values[KUC_STATES];

	k->reason = KUC_NONE;
	k->interrupt = 0;
	k->running = 0;
	k->error = uc_context_restore(k->uc, k->clean);
	if (k->error)
		return;
	/* No end address: a real one makes its block be translated at every start. */
	k->error = uc_emu_start(k->uc, begin, 0, 0, 0);
	for (uint32_t i = 0; i < k->states; i++)
		values[i] = k->state_reg[i] == ARM_COPROCESSOR ? (void *)&k->state[i] : &k->state[i].value;
	int err = uc_reg_read_batch(k->uc, k->state_reg, values, (int)k->states);
	if (!k->error)
		k->error = err;
}

/* The entry of the block that was entered last. */
uint64_t kuc_last_block(struct kuc *k) { return entry_of(k, k->block); }

void kuc_stop(void *uc) { uc_emu_stop(uc); }

/* The processor state after the last run as raw words, for those fields that
 * have no register number. */
uint32_t kuc_context_words(struct kuc *k, const uint32_t **words)
{
	if (uc_context_save(k->uc, k->after))
		return 0;
	*words = k->after;
	return (uint32_t)(uc_context_size(k->uc) / 4);
}
