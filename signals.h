/*
 * Signals: names and numbers; the mask and the one disposition that treewrap
 * changes, saved and given back; the descriptor that signals are read from.
 *
 * Masks are the kernel's own 64 bits and go to it by raw system calls: both
 * glibc and musl keep two or three real-time signals to themselves and strip
 * them from every sigset_t, and those must be forwarded like the rest.
 */
#ifndef SIGNALS_H
#define SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SIGNAL_MAX	 64
#define SIGNAL_NAME_SIZE 16

/* What the caller handed down, and the command is to have again. */
struct inherited {
	uint64_t mask;	   /* blocked signals; bit N-1 is signal N */
	bool chld_ignored; /* SIGCHLD was ignored: waiting would be impossible */
};

/* A signal as it arrived (see signalfd(2)). */
struct arrived {
	int signo;
	int code; /* SI_USER, SI_QUEUE, SI_KERNEL, ... */
	pid_t sender;
	uid_t uid;
	uint64_t value;
	unsigned stops; /* of the command, that the shim knew of then */
	bool missed; /* came before its next receiver was born: see signals_pending() */
};

/*
 * The signal that WORD means: a name with or without SIG, in either case, or a
 * number; RTMIN+N and RTMAX-N count from 34 and 64, as glibc, shells and systemd
 * do, whatever libc this is. Returns 1 to 64, or 0 if there is no such signal.
 */
int signal_by_name(const char *word);

/* Writes "SIGTERM", "SIGRTMIN+3" or, for what has no name, "SIG32" into NAME. */
void signal_name(int signo, char name[SIGNAL_NAME_SIZE]);

/*
 * Blocks every signal and gives SIGCHLD its default action, after which nothing
 * reaches this process but through signals_open(). Fills FOUND. Cannot fail.
 */
void signals_take(struct inherited *found);

/* Gives back what signals_take() changed. Async-signal-safe; for the command. */
void signals_give_back(const struct inherited *found);

/* In place of a descriptor: poll(2) passes over it, so look again after so long. */
#define SIGNALS_UNPOLLED (-2)
#define SIGNALS_LOOK_MS	 10

/*
 * A close-on-exec, non-blocking signalfd(2) for every signal; SIGNALS_UNPOLLED where such
 * a thing is refused (a seccomp filter may); or -1 and errno if descriptors are out.
 */
int signals_open(void);

/*
 * Reads one pending signal. False if there is none. Passes over what this process has
 * sent itself: by writing to a closed pipe, or to continue. Leaves STOPS at 0.
 */
bool signals_read(int fd, struct arrived *arrived);

/*
 * The signals that wait to be read: bit N-1 is signal N. Asked for just before a process
 * is born into our group: what the terminal had sent to the group by then has missed it.
 */
uint64_t signals_pending(void);

/* Was ARRIVED, which has just been read, in PENDING? Takes it out of there. */
bool signals_was_pending(uint64_t *pending, const struct arrived *arrived);

/*
 * True if ARRIVED brought a value, with which it can travel on: as INFO, for
 * rt_sigqueueinfo(2), under the number SIGNO. The sender is told too, as the kernel
 * allows for such signals.
 */
bool signals_value(const struct arrived *arrived, int signo, siginfo_t *info);

/* Is SIGNO one of those that stop, unless they are caught? (Not SIGSTOP.) */
bool signals_stops(int signo);

/*
 * Stops this process by SIGNO in two steps: after the first, a SIGCONT from anybody takes
 * the second back (SIGNO is not SIGSTOP, which cannot be blocked). END does it, or, if
 * not REALLY, clears it away; it returns when we have been continued. False: nobody has
 * continued us, for in an orphaned process group the kernel does not stop us.
 */
void signals_stop_begin(int signo);
bool signals_stop_end(int signo, bool really);

/*
 * Ends this process by SIGNO with its default action and without a core file, so
 * that the caller sees what it would have seen of the command. Returns only if
 * that is impossible (PID 1).
 */
void signals_die_of(int signo);

#endif
