/*
 * The descendants of one process, ours: find them, signal them, freeze them, kill them,
 * and never anything else.
 *
 * Words: a MEMBER is a process that has been proven to descend from the owner. Once a
 * member, always a member: an orphan is handed to the nearest living subreaper above it,
 * which is the owner or a member. What must never happen is that a member's number is
 * taken for the member after it died and the number went to a stranger; how each signal
 * is kept from that is said in tree.c.
 *
 * Nothing here allocates, forks or waits for children. THE OWNER MUST NOT REAP between a
 * walk and the signals that follow it: unreaped children are what cannot be recycled.
 */
#ifndef TREE_H
#define TREE_H

#include "cgroup.h"
#include "proc.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Walks stop at this many members; more are met when these are gone. */
#define TREE_MEMBERS_MAX 65536

/* The kernel's own limit for process numbers, PID_MAX_LIMIT. */
#define TREE_NUMBERS_MAX 4194304

struct member {
	pid_t pid;
	bool child;    /* the owner's own: its number is safe until the owner reaps it */
	bool looked;   /* its children have been looked for in this walk */
	bool threaded; /* ... but not those of its threads, which are many */
	uint64_t id; /* tells it from a later holder of the number; unused for a child */
};

/*
 * A MEMBER may also be a process in the tree's own cgroup, if it has one, whatever its
 * parents are.
 */

/* Large: to be placed in static storage, where it costs nothing until it is used. */
struct tree {
	pid_t owner;
	int proc;	  /* /proc, or -1 */
	int own_children; /* the owner's own children file, or -1 */
	int outside; /* /proc of the namespace above, where callers live; -1: we too */
	const struct cgroup *cgroup; /* the tree's own, or NULL */
	bool no_pidfd;		     /* the kernel refuses pidfds */
	bool no_pidfd_info;

	/* What the last walk found, parents before children. */
	unsigned count;
	unsigned moving;  /* of a freeze: members that were not yet at rest */
	unsigned threads; /* of members that have many, and have not been looked at */
	bool each_thread; /* the next one's are looked at, each */
	struct member members[TREE_MEMBERS_MAX];
	unsigned read; /* those in READ_THREADS */
	/* A bit for each number: is in the list; was sent SIGKILL and not reaped since;
	 * its list of threads was read, and it has not been reaped since. */
	uint64_t met[TREE_NUMBERS_MAX / 64];
	uint64_t doomed[TREE_NUMBERS_MAX / 64];
	uint64_t read_threads[TREE_NUMBERS_MAX / 64];
};

/*
 * More about it, for who asks. Not its command line: to read that takes a lock of the
 * process's own memory, on which it could make us wait.
 */
struct tree_details {
	pid_t parent, session;
	int64_t age_ns, cpu_ns;
};

/* What is known of a process for a report. */
struct tree_report {
	pid_t pid;
	char state;			 /* as in /proc/PID/stat; '?' unknown */
	char command[PROC_COMMAND_SIZE]; /* ends in a NUL; may hold any byte */
};

/*
 * Makes TREE, whose descriptors are -1 before the first time, the descendants of the
 * calling process. Without a usable /proc, direct children can be found still: see
 * tree.c. Opens at most two descriptors, close-on-exec and above 2; cannot fail. It is
 * done by the first walk if it was not before; but then there may be no descriptors any
 * more, and a walk finds less.
 */
void tree_open(struct tree *tree);

/*
 * Makes TREE the descendants of the calling process, process 1 of a new PID namespace
 * with a /proc of its own. OUTSIDE gets the /proc that TREE had.
 */
void tree_open_inside(struct tree *tree);

/* The number by which our caller knows the descendant PID. */
pid_t tree_number_outside(const struct tree *tree, pid_t pid);

/* The same for any process, by which no time is lost; 0 if that is not to be had. */
pid_t tree_number_for_reply(const struct tree *tree, pid_t pid);

/*
 * Forgets whom tree_kill() has reached: a number may have gone, by way of its own parent,
 * to a new member, which would be left out for ever. To be called now and then.
 */
void tree_pardon(struct tree *tree);

/* To be told of every child that the owner has reaped: its number is free again. */
void tree_reaped(struct tree *tree, pid_t pid);

/*
 * Was the list of PID's threads read? Then each thread's end, and the reaping of PID,
 * have to clear the kernel's cache of /proc, and wait for each other there: in a loop,
 * which at a real-time priority keeps the CPU from the one that it waits for.
 */
bool tree_has_read_threads(const struct tree *tree, pid_t pid);

/* How many are in the tree's cgroup; cheaper than a walk. */
unsigned tree_count_cgroup(const struct tree *tree);

/* Is anything alive in the tree's cgroup, if it has one? */
bool tree_is_populated(const struct tree *tree);

/* Finds all members that can be found. Returns how many. */
unsigned tree_walk(struct tree *tree);

/*
 * Walks again without forgetting what was found: new members are appended. Returns how
 * many there are now.
 */
unsigned tree_walk_on(struct tree *tree);

/* Lists the owner's own children and nobody else, dead ones too. Returns how many. */
unsigned tree_list_children(struct tree *tree);

/*
 * False if so many want the CPU at this moment that some of ours may be forking as fast
 * as we kill.
 */
bool tree_is_calm(struct tree *tree);

/* False where the kernel kills or freezes all at once, or does not list our children. */
bool tree_can_be_felled(struct tree *tree);

/*
 * SIGKILL to the owner's children and, where those are few, to who is found below them,
 * parents first; all but those that it has reached before. *MORE: there are others, or
 * may be, who will be the owner's own children when their parents are dead. Returns how
 * many it reached.
 */
unsigned tree_fell(struct tree *tree, bool *more);

/*
 * Stops members by SIGSTOP, walking until a walk finds none that moves or the bound is
 * reached. Those that tree_kill() has reached already are left out, they fork no more:
 * the list has the others.
 */
void tree_freeze(struct tree *tree);

/*
 * Signals the members from the list's place FROM on, parents first: SIGNO, with INFO if
 * not NULL (a queued value; see rt_sigqueueinfo(2)), then SIGCONT if CONT. GROUP other
 * than ANY_GROUP passes over those that are not in that process group (0: one that is led
 * from outside our PID namespace). Zombies are passed over. Returns how many it reached.
 */
#define ANY_GROUP (-1)
unsigned tree_signal(struct tree *tree, unsigned from, int signo, const siginfo_t *info,
		     bool cont, pid_t group);

/*
 * SIGKILL to all in the tree's cgroup, if it has one. False if this has to be done one by
 * one.
 */
bool tree_kill_cgroup(const struct tree *tree);

/*
 * SIGKILL to every member in the list, children before parents: a parent killed first
 * would leave its stopped child in an orphaned process group, which the kernel wakes
 * with SIGHUP and SIGCONT. Returns how many it reached.
 */
unsigned tree_kill(struct tree *tree);

/*
 * What of the tree cannot be seen here, in words; NULL if all can. What is not seen is
 * waited for all the same.
 */
const char *tree_blindness(struct tree *tree);

/*
 * What member INDEX of the list is. False if it is a zombie, which is nothing but a
 * status that has not been fetched, or gone.
 */
bool tree_describe(struct tree *tree, unsigned index, struct tree_report *report);

/* More about the process of REPORT. False if there is nothing to be had. */
bool tree_detail(const struct tree *tree, const struct tree_report *report,
		 struct tree_details *details);

/*
 * Why the process of REPORT has outlived tree_kill(), in words for TEXT: frozen, in
 * uninterruptible sleep (and in which kernel function, if that may be read), or not ours
 * to signal.
 */
void tree_explain(struct tree *tree, const struct tree_report *report, char *text,
		  size_t size);

#endif
