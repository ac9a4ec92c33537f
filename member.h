/*
 * One member of a tree: who it is, whether it is still that, and signals to it. For
 * tree.c and fell.c, which find them.
 */
#ifndef MEMBER_H
#define MEMBER_H

#include "tree.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A bit for each number, see struct tree. */
static inline bool has_bit(const uint64_t *bits, pid_t pid)
{
	return (bits[pid / 64] >> (pid % 64) & 1) != 0;
}

static inline void set_bit(uint64_t *bits, pid_t pid)
{
	bits[pid / 64] |= UINT64_C(1) << (pid % 64);
}

static inline void clear_bit(uint64_t *bits, pid_t pid)
{
	bits[pid / 64] &= ~(UINT64_C(1) << (pid % 64));
}

/* A pidfd for PID; -1 if there is no such process, or (NO_PIDFD) there are no pidfds. */
int member_open(struct tree *tree, pid_t pid);

/*
 * The parent and the identity of the process that PIDFD (or, if it is -1, the number PID)
 * stands for. False if it is gone. Where /proc has to be asked it is asked by number: if
 * the number was recycled since PIDFD was opened, PIDFD is dead and reaches nobody.
 */
bool member_identify(struct tree *tree, pid_t pid, int pidfd, pid_t *parent,
		     uint64_t *id);

/*
 * Is MEMBER still the process that was proven, and alive? *PIDFD gets a descriptor that
 * stands for it, or -1 if it is a child of the owner or the kernel has none.
 */
bool member_meet_again(struct tree *tree, const struct member *member, int *pidfd);

/* Has MEMBER, whom PIDFD stands for (-1: as above), lived until now? */
bool member_still_there(struct tree *tree, const struct member *member, int pidfd);

/* SIGNO, with INFO if not NULL, to MEMBER, by PIDFD if there is one. 0, or errno. */
int member_signal(const struct member *member, int pidfd, int signo,
		  const siginfo_t *info);

#endif
