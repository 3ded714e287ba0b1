/* What a batch costs without kjit: the memory and registers of one of kjit's
 * machines, with its driver, an image and a window of packets, run by nothing
 * but Unicorn. `make bench-c` makes the snapshot and compares.
 *
 *   cbench SNAPSHOT
 *
 * reads letters and for each prints nanoseconds that one of the following takes,
 * the mean of 64 behind 64 that do not count:
 *
 *   r  a packet, with the packets where they are
 *   c  a packet, after every packet and 128 bytes of what the kernel knows of it
 *      were copied there
 *   b  the same with a callback for each block that counts it, which is how
 *      budgets are kept
 *   f  a fresh program on one packet: the image copied there, its translations
 *      dropped, and the first packet run
 *
 * So whoever compares can do so in turns of a millisecond, which all meet the same
 * neighbours on the machine.
 *
 * The snapshot is numbers of 64 bits in this host's order: magic, architecture,
 * mode, processor model, size of memory, number of registers and a pair of
 * number and value for each (number -1: the x86 MSR that the next pair's number
 * is), begin, address after the halt, number of packets, where in memory the
 * driver's cursor is and what it is to be, where the results are (one every 16
 * bytes), address, place and size of the image, where a 0 ends the batch behind
 * the first packet, and for each packet its place and size and the expected
 * result; then the memory. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <unicorn/unicorn.h>

enum { MAGIC = 0x6b6a6974, METADATA = 128, BATCHES = 64 };

struct packet {
	uint64_t at, size, want;
};

struct snapshot {
	FILE *file;
	uint64_t ram_size, begin, halted, packets, cursor_at, cursor, results;
	uint64_t image, image_at, image_size, end_at;
	struct packet *packet;
	uint8_t *ram;
	uint64_t blocks;

	uc_engine *uc;
	uc_context *clean;
	/* Where packets and image come from, and where what is known of packets
	 * comes from and goes to. */
	uint8_t *from, *fresh, *metadata;
};

static void die(const char *what)
{
	fprintf(stderr, "cbench: %s\n", what);
	exit(1);
}

static void check(uc_err err, const char *what)
{
	if (err) {
		fprintf(stderr, "cbench: %s: %s\n", what, uc_strerror(err));
		exit(1);
	}
}

static uint64_t next(struct snapshot *s)
{
	uint64_t v;
	if (fread(&v, sizeof v, 1, s->file) != 1)
		die("the snapshot is too short");
	return v;
}

static void count(uc_engine *uc, uint64_t addr, uint32_t size, void *user)
{
	struct snapshot *s = user;
	(void)uc;
	(void)addr;
	(void)size;
	s->blocks++;
}

static void load(struct snapshot *s, const char *name, int hook)
{
	uc_engine *uc;
	s->file = fopen(name, "rb");
	if (!s->file || next(s) != MAGIC)
		die("no snapshot");
	uint64_t arch = next(s), mode = next(s);
	check(uc_open((uc_arch)arch, (uc_mode)mode, &uc), "open");
	check(uc_ctl_set_cpu_model(uc, (int)next(s)), "processor model");
	check(uc_ctl_set_tcg_buffer_size(uc, 16 << 20), "buffer");
	s->ram_size = next(s);
	s->ram = aligned_alloc(4096, s->ram_size);
	if (!s->ram)
		die("out of memory");
	check(uc_mem_map_ptr(uc, 0, s->ram_size, UC_PROT_ALL, s->ram), "map memory");
	for (uint64_t n = next(s); n > 0; n--) {
		uint64_t reg = next(s), value = next(s);
		if (reg == UINT64_MAX) {
			uc_x86_msr msr = {.rid = (uint32_t)value};
			msr.value = next(s);
			check(uc_reg_write(uc, UC_X86_REG_MSR, &msr), "write an MSR");
		} else {
			check(uc_reg_write(uc, (int)reg, &value), "write a register");
		}
	}
	s->begin = next(s);
	s->halted = next(s);
	s->packets = next(s);
	s->cursor_at = next(s);
	s->cursor = next(s);
	s->results = next(s);
	s->image = next(s);
	s->image_at = next(s);
	s->image_size = next(s);
	s->end_at = next(s);
	s->packet = calloc(s->packets, sizeof *s->packet);
	for (uint64_t i = 0; i < s->packets; i++)
		s->packet[i] = (struct packet){next(s), next(s), next(s)};
	if (fread(s->ram, 1, s->ram_size, s->file) != s->ram_size)
		die("the snapshot is too short");
	fclose(s->file);
	if (hook) {
		uc_hook h;
		check(uc_hook_add(uc, &h, UC_HOOK_BLOCK, (void *)count, s, 1, 0), "hook");
	}
	s->uc = uc;
	check(uc_context_alloc(uc, &s->clean), "context");
	check(uc_context_save(uc, s->clean), "context");

	uint64_t size = 0;
	for (uint64_t i = 0; i < s->packets; i++)
		size += s->packet[i].size;
	s->from = malloc(size);
	s->metadata = malloc(2 * METADATA * s->packets);
	s->fresh = malloc(s->image_size);
	if (!s->from || !s->metadata || !s->fresh)
		die("out of memory");
	memset(s->metadata, 1, 2 * METADATA * s->packets);
	memcpy(s->fresh, s->ram + s->image_at, s->image_size);
	uint8_t *p = s->from;
	for (uint64_t i = 0; i < s->packets; i++, p += s->packet[i].size)
		memcpy(p, s->ram + s->packet[i].at, s->packet[i].size);
}

/* Runs the first packets, whose number the memory says. */
static void run(struct snapshot *s, uint64_t packets)
{
	uint64_t pc = 0;
	memcpy(s->ram + s->cursor_at, &s->cursor, sizeof s->cursor);
	check(uc_context_restore(s->uc, s->clean), "restore");
	check(uc_emu_start(s->uc, s->begin, 0, 0, 0), "run");
	check(uc_reg_read(s->uc, UC_X86_REG_RIP, &pc), "read");
	if (pc != s->halted)
		die("the driver did not come to its end");
	for (uint64_t i = 0; i < packets; i++) {
		uint32_t got;
		memcpy(&got, s->ram + s->results + 16 * i, sizeof got);
		if (got != s->packet[i].want)
			die("a wrong result");
	}
}

static void run_all(struct snapshot *s) { run(s, s->packets); }

static void copy_and_run(struct snapshot *s)
{
	const uint8_t *p = s->from;
	for (uint64_t i = 0; i < s->packets; i++, p += s->packet[i].size) {
		memcpy(s->ram + s->packet[i].at, p, s->packet[i].size);
		memcpy(s->metadata + METADATA * i, s->metadata + METADATA * (s->packets + i), METADATA);
	}
	run_all(s);
}

static void renew_and_run(struct snapshot *s)
{
	memcpy(s->ram + s->image_at, s->fresh, s->image_size);
	/* The registers say what is mapped. */
	check(uc_context_restore(s->uc, s->clean), "restore");
	check(uc_ctl_remove_cache(s->uc, s->image, s->image + s->image_size), "forget the image");
	run(s, 1);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return 1e9 * t.tv_sec + t.tv_nsec;
}

static const struct kind {
	char letter;
	void (*what)(struct snapshot *);
	int hook, fresh;
} kinds[] = {{'r', run_all, 0, 0}, {'c', copy_and_run, 0, 0}, {'b', copy_and_run, 1, 0}, {'f', renew_and_run, 0, 1}};

enum { KINDS = sizeof kinds / sizeof *kinds };

int main(int argc, char **argv)
{
	static struct snapshot snapshots[KINDS];
	if (argc != 2)
		die("usage: cbench SNAPSHOT");
	for (int i = 0; i < KINDS; i++) {
		struct snapshot *s = &snapshots[i];
		load(s, argv[1], kinds[i].hook);
		if (kinds[i].fresh)
			memset(s->ram + s->end_at, 0, 8);
		kinds[i].what(s);
	}
	for (int letter; (letter = getchar()) != EOF;) {
		for (int i = 0; i < KINDS; i++) {
			struct snapshot *s = &snapshots[i];
			if (kinds[i].letter != letter)
				continue;
			for (int batch = 0; batch < BATCHES; batch++)
				kinds[i].what(s);
			double began = now();
			for (int batch = 0; batch < BATCHES; batch++)
				kinds[i].what(s);
			printf("%.2f\n", (now() - began) / BATCHES / (kinds[i].fresh ? 1 : s->packets));
			fflush(stdout);
		}
	}
	return 0;
}
