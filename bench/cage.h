#ifndef CAGE_H
#define CAGE_H

#include <stdbool.h>

/* A cgroup that holds so many processes and no more: what bombs are let off in. */
struct cage {
	char folder[128];
	char procs[160]; /* its file cgroup.procs */
};

/* False: there is no pids controller here, or it is not ours. */
bool cage_make(struct cage *cage, int limit);

/* Waits until so many processes are in it; false: they are not, after a while. */
bool cage_holds(const struct cage *cage, int least, int most);

/* Kills what is still in it, and removes it. */
void cage_remove(const struct cage *cage);

#endif
