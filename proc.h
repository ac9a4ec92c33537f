/* What treewrap reads from /proc. Nothing here allocates. */
#ifndef PROC_H
#define PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROC_COMMAND_SIZE 16 /* TASK_COMM_LEN */

/* What /proc/PID/stat says, see proc_pid_stat(5). */
struct proc_stat {
	char command[PROC_COMMAND_SIZE]; /* ends in a NUL; may hold any byte */
	char state;
	pid_t parent, session;
	long threads;
	uint64_t start; /* in clock ticks since boot */
	uint64_t cpu;	/* ticks that it has used */
};

/* Of all clocks that /proc shows, on every machine. */
#define TICKS_PER_S 100

/* A file of numbers that is read piece by piece; start with {.fd = FD}. */
struct proc_numbers {
	int fd;
	off_t offset;
	size_t length, next;
	char piece[4096];
};

/* A directory whose names are read; start with {.fd = FD}. */
struct proc_entries {
	int fd;
	long length, next;
	char piece[4096] __attribute__((aligned(8)));
};

/*
 * Opens /proc, close-on-exec and above 2, if it shows the caller's own PID namespace
 * (only there are its numbers ours). Otherwise -1 and errno.
 */
int proc_open(void);

/* The whole of a short file into TEXT as a string; "" if it cannot be read or FD is -1.
 * Closes FD. */
void proc_read_text(int fd, char *text, size_t size);

/* Opens PID's FILE below the directory PROC. -1 and errno if that fails. */
int proc_open_file(int proc, pid_t pid, const char *file);

/* Opens the children file of PID's THREAD, for proc_next_number(). -1 if that fails. */
int proc_open_children(int proc, pid_t pid, pid_t thread);

/* How many threads PID has; 0 if that is not to be seen, -1 if PID is gone or hidden. By
 * the look that proc_open_children() takes anyway. */
int proc_count_threads(int proc, pid_t pid);

/* False if PID is gone or hidden, or PROC is -1. */
bool proc_read_stat(int proc, pid_t pid, struct proc_stat *stat);

/* True if nothing is left of it but a status to be fetched. (One whose first thread has
 * ended shows the same letter while others run.) */
bool proc_is_over(const struct proc_stat *stat);

/*
 * PID's directory below PROC: it stays that process's and never turns to a later holder
 * of the number. A descriptor above 2; -1 and errno, which is ESRCH if there is no such
 * process.
 */
int proc_open_process(int proc, pid_t pid);

/* True unless the process whose directory PROCESS is has ended. */
bool proc_lives(int process);

/*
 * The number that the caller's descendant PID, a number in the caller's own PID
 * namespace, has in that of OUTSIDE, the /proc of one above. PID itself if it cannot be
 * found.
 */
pid_t proc_number_outside(int outside, pid_t pid);

/*
 * The same, by asking of a pidfd alone, which tells since 5.14 (even of ourselves when we
 * are sealed): takes no longer on a large machine. 0 if it does not.
 */
pid_t proc_number_by_pidfd(int outside, pid_t pid);

/* True if PROC does not show the processes of others (hidepid=2). */
bool proc_hides(int proc);

/*
 * True if PID is held by the freezer of cgroup v1, where SIGKILL does not reach it (in
 * cgroup v2 it does). Looks where everybody mounts it.
 */
bool proc_is_frozen(int proc, pid_t pid);

/* How many threads of the machine run or want to; INT_MAX if that is not known. */
int proc_running(int proc);

/* The next number of a children file, or 0 at its end. */
pid_t proc_next_number(struct proc_numbers *numbers);

/* The next name and its d_type, or NULL at the end. Good until the next call. */
const char *proc_next_name(struct proc_entries *entries, uint8_t *type);

/* The next name that is a number, or 0 at the end. */
pid_t proc_next_entry(struct proc_entries *entries);

#endif
