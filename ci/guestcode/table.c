/*
 * A decision by hash table, as the proposal of 2018 has it for seccomp: the
 * number of the call is hashed, the entries of its bucket are compared, and the
 * value found is the return value. The mixing is the last round of Bob Jenkins'
 * lookup3 (public domain), which kernels' maps end with too, so that the cost is
 * of that order.
 */
#include "guest.h"

struct entry {
	u32 nr, ret;
};

struct table {
	u32 mask;     /* buckets - 1 */
	u32 seed;
	u32 otherwise; /* what calls get that are in no bucket */
	u32 first[1]; /* by bucket, one more than there are: index of the first entry */
};

static inline u32 rotate(u32 v, u32 by) { return v << by | v >> (32 - by); }

u32 run(const u32 *call, const struct table *t, const struct entry *entries)
{
	u32 nr = call[0], a = nr + t->seed, b = t->seed, c = t->seed, i, end;

	c ^= b; c -= rotate(b, 14);
	a ^= c; a -= rotate(c, 11);
	b ^= a; b -= rotate(a, 25);
	c ^= b; c -= rotate(b, 16);
	a ^= c; a -= rotate(c, 4);
	b ^= a; b -= rotate(a, 14);
	c ^= b; c -= rotate(b, 24);
	c &= t->mask;
	for (i = t->first[c], end = t->first[c + 1]; i < end; i++)
		if (entries[i].nr == nr)
			return entries[i].ret;
	return t->otherwise;
}
