/*
 * A model of what a kernel does around the filters of a task when it makes a
 * system call: the look into the newest filter's bitmap (Linux 5.11 on), filling
 * struct seccomp_data, running every filter, newest first, and keeping the
 * strongest action. The context stands for the saved registers.
 */
#include "guest.h"

struct seccomp_data {
	s32 nr;
	u32 arch;
	u64 ip;
	u64 args[6];
};

struct filter {
	const struct filter *prev; /* the one attached before */
	u32 (*run)(const struct seccomp_data *, const void *, const void *);
	const void *program; /* what run gets beside the call: an interpreter's program, */
	const void *env;     /* and its kernel; machine code looks at neither */
	u32 cached;          /* numbers that bitmap has; 0: no cache */
	u32 bitmap[16];
};

#define ALLOW 0x7fff0000u
#define ACTION 0xffff0000u

u32 run(const struct seccomp_data *regs, const struct filter *newest)
{
	const struct filter *f;
	struct seccomp_data sd;
	u32 nr = regs->nr, ret = ALLOW;
	int i;

	if (nr < newest->cached && newest->bitmap[nr / 32] >> nr % 32 & 1)
		return ALLOW;
	sd.nr = nr;
	sd.arch = regs->arch;
	sd.ip = regs->ip;
	for (i = 0; i < 6; i++)
		sd.args[i] = regs->args[i];
	for (f = newest; f; f = f->prev) {
		u32 cur = f->run(&sd, f->program, f->env);

		if ((s32)(cur & ACTION) < (s32)(ret & ACTION))
			ret = cur;
	}
	return ret;
}
