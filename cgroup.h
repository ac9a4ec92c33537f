/*
 * A cgroup (version 2) of one run's own: the command is born into it, and whatever comes
 * out of it stays in it, also what is no descendant of ours any more (a process that has
 * joined another PID namespace leaves its children to that one's process 1).
 */
#ifndef CGROUP_H
#define CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CGROUP_NAME_SIZE 48
#define CGROUP_PATH_SIZE 1024

struct cgroup {
	int place; /* directory of the cgroup that treewrap is in; -1: none is used */
	int own; /* ours, below it; holds a lock as long as one of our processes lives */
	int events; /* its cgroup.events: poll it for POLLPRI */
	int kill;   /* its cgroup.kill, for writing; -1 before Linux 5.14 */
	int procs;  /* its cgroup.procs, for writing, until the command has been born */
	char name[CGROUP_NAME_SIZE];
	char path[CGROUP_PATH_SIZE]; /* ours, as /proc/PID/cgroup would tell it */
};

/* What a cgroup has used, as far as its controllers tell; -1 where they do not. */
struct cgroup_usage {
	int64_t memory_peak, pids_peak, cpu_usec;
};

/*
 * Makes CGROUP below the one that this process is in, and removes what earlier runs,
 * killed as a whole, have left empty there. Where systemd manages the hierarchy only
 * where it has been delegated; if STRICTLY that holds everywhere. Descriptors are
 * close-on-exec and above 2. False, and in WHY the reason, if it cannot be had.
 */
bool cgroup_make(struct cgroup *cgroup, bool strictly, char *why, size_t size);

/*
 * fork(2) with the child in CGROUP from its birth (CLONE_INTO_CGROUP, since 5.7). Returns
 * as fork does; ENOSYS or EPERM where there is no such thing.
 */
pid_t cgroup_fork_into(const struct cgroup *cgroup);

#define CGROUP_KEPT 4

/* The descriptors that CGROUP, or NULL, needs to the end, into KEEP; PROCS is closed. */
void cgroup_keep(struct cgroup *cgroup, int keep[CGROUP_KEPT]);

/* Moves this process into CGROUP. 0, or -1 and errno. Async-signal-safe. */
int cgroup_join(const struct cgroup *cgroup);

/* True unless the kernel says that no process is in CGROUP or below it. */
bool cgroup_is_populated(const struct cgroup *cgroup);

/*
 * Calls VISIT for every process in CGROUP and below it, as far as it has a number in our
 * PID namespace. Returns how many. Allocates nothing.
 */
unsigned cgroup_visit(const struct cgroup *cgroup, void (*visit)(pid_t pid, void *),
		      void *argument);

/* Is the process in CGROUP or below it whose /proc/PID/cgroup FD is? Closes FD. */
bool cgroup_holds(const struct cgroup *cgroup, int fd);

/*
 * SIGKILL to all in CGROUP and below it, at once, before any of them can fork. False if
 * this kernel cannot: then they have been frozen, so that they cannot fork either, and
 * must be killed one by one. (What is frozen in version 2 dies of SIGKILL.)
 */
bool cgroup_kill(const struct cgroup *cgroup);

struct cgroup_usage cgroup_usage(const struct cgroup *cgroup);

/*
 * Removes CGROUP and what was made below it. False and errno if something is in it, or if
 * the modes do not let us: see privs.h.
 */
bool cgroup_remove(struct cgroup *cgroup);

#endif
