/*
 * What treewrap says: messages for people on standard error, events for programs on
 * --status-fd. It decides nothing, it never waits long for a slow reader, and it never
 * changes the flags of a descriptor that the caller shares.
 */
#ifndef STATUS_H
#define STATUS_H

#include "json.h"
#include "options.h"
#include "tree.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#define STATUS_PENDING_MAX 16384
#define LEFTOVER_NAMES_MAX 64
#define SURVIVORS_MAX	   16
#define REASON_SIZE	   96

/* Why the tree ended, in the words of the end record. */
enum cause {
	CAUSE_EXIT,
	CAUSE_TIMEOUT,
	CAUSE_STDIN,
	CAUSE_FD,
	CAUSE_PARENT,
	CAUSE_PID,
	CAUSE_SIGNAL,
	CAUSE_CONTROL,
	CAUSE_SHIM_KILLED,
	CAUSE_REAPER_KILLED,
	CAUSE_EXEC_FAILED,
};

/* A descriptor that can be written to without waiting. */
struct sink {
	int fd; /* -1: none */
	enum { SINK_UNKNOWN, SINK_SOCKET, SINK_NEVER_WAITS, SINK_MAY_WAIT } kind;
};

struct status {
	struct sink errors; /* standard error, or -1: messages go to the shim by LINK */
	int link;
	bool patient; /* a message may still wait for its reader */
	unsigned verbose;
	const char *prefix; /* of messages */
	int64_t start_ns;   /* when the command was started */

	struct sink events;
	size_t pending_length;
	char pending[STATUS_PENDING_MAX]; /* whole lines; the first may have been begun */
	unsigned lost;			  /* events that found no room */
};

struct survivor {
	struct tree_report process;
	char reason[REASON_SIZE];
};

/* All that the end record tells. */
struct ending {
	enum cause cause;
	bool was_asked; /* somebody or something stopped the tree */
	bool had_to_stop_leftovers;
	int error; /* errno of an exec that failed */
	bool command_ended;
	int exit_code; /* of the command; -1 if a signal ended it */
	int signo;     /* that ended it, or 0 */
	bool core;
	int status; /* what treewrap exits with */
	unsigned leftovers;
	char leftover_names[LEFTOVER_NAMES_MAX][PROC_COMMAND_SIZE];
	unsigned killed, reaped;
	bool had_cgroup;
	struct cgroup_usage usage; /* of it */
	unsigned survivors;	   /* all of them; the first SURVIVORS_MAX are told */
	struct survivor survivor[SURVIVORS_MAX];
};

/*
 * One line on standard error, and exit with STATUS_FAILED. Only before anything has been
 * started.
 */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Makes STATUS speak on standard error and on OPT's --status-fd. */
void status_open(struct status *status, const struct options *opt);

/*
 * Says that the command has its own descriptors by now: standard error may be opened anew
 * in this process, so that writing to it need not wait.
 */
void status_own_errors(struct status *status);

/* One line for people: what failed, on what, why. No newline, no prefix in FORMAT. */
void say(struct status *status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The same, if --verbose was given. */
void say_more(struct status *status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Puts on standard error what say() made of a message in another process. */
void say_for(struct status *status, const char *line);

/* Events, see the spec, section 5. TO and SENDER as they were; ID NULL: there is none. */
void status_start(struct status *status, const struct options *opt, const char *id,
		  enum contain contain, pid_t shim, pid_t pid);
void status_signal(struct status *status, int signo, pid_t sender, enum scope to);
void status_stop(struct status *status, enum cause cause, unsigned processes);
void status_escalate(struct status *status, int signo, unsigned processes);
void status_end(struct status *status, const struct ending *ending);

/* What the end record tells, but for "event": members of an object that is begun. */
void status_tell_end(struct json *line, const struct status *status,
		     const struct ending *ending);

/* True if events wait for their reader: poll STATUS->events.fd for POLLOUT. */
bool status_waits(const struct status *status);

/* Writes what waits, as far as the reader takes it. */
void status_flush(struct status *status);

/* The containment in the words of the start record; AUTO is none. */
const char *contain_name(enum contain contain);

/* The cause in the words of the end record ("timeout"). */
const char *cause_name(enum cause cause);

#endif
