/*
 * The command line, read once into one plain structure. Everything that can be
 * wrong about the words themselves is found here, before anything is started.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include "rights.h"
#include "signals.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#ifndef VERSION
#define VERSION "0.1.0"
#endif

#define LADDER_MAX 16 /* polite signals before SIGKILL */
#define WATCH_MAX  8  /* --watch-fd and --watch-pid, each */

#define STATUS_LEFTOVERS 123
#define STATUS_TIMEOUT	 124
#define STATUS_FAILED	 125
#define STATUS_CANNOT	 126
#define STATUS_NOT_FOUND 127
#define STATUS_WATCH	 129

/* TO_SHIM_GROUP: the command, and those of the tree that are in the shim's process group,
 * where the command is too unless it has left it. */
enum scope { TO_MAIN, TO_GROUP, TO_TREE, TO_SHIM_GROUP };
enum leftovers { LEFTOVERS_STOP, LEFTOVERS_WAIT, LEFTOVERS_LEAVE, LEFTOVERS_FAIL };
/* GROUP_SESSION: a session of its own, with the terminal that is standard input. */
enum process_group { GROUP_BY_TERMINAL, GROUP_NEW, GROUP_KEEP, GROUP_SESSION };
enum contain { CONTAIN_TREE, CONTAIN_CGROUP, CONTAIN_PIDNS, CONTAIN_AUTO };

#define REWRITE_DROP 0xff

/* The other program that we are called as (see names.h), and what it says. */
struct called_as {
	const struct guise *guise; /* NULL: none, we are treewrap */
	const char *prefix;	   /* of its lines */
	const char *quoted;	   /* the command's name in its lines */
	bool verbose;		   /* in its way */
};

struct options {
	/*
	 * The command and its arguments, ending in NULL, inside main's own argv;
	 * so command[-1] exists and may be overwritten (see command.c).
	 */
	char **command;
	const char *name; /* command[0] as it was given */

	int64_t timeout_ns; /* 0: never */
	int ladder[LADDER_MAX];
	unsigned ladder_length; /* 0: straight to SIGKILL */
	int64_t kill_after_ns;
	int64_t verify_for_ns; /* 0: for ever */
	int64_t linger_ns;
	enum scope stop_to; /* polite signals, as long as the command is there */
	/* What each polite signal has in place of kill_after_ns while the command is
	 * there; when it has ended, what is left starts from the first signal. 0: none */
	int64_t command_time_ns;
	uint64_t ask_to_end; /* these, forwarded, let that time begin; bit N-1 */
	enum leftovers leftovers;

	bool watch_stdin;
	bool watch_parent;
	int parent_signal; /* forward this when the parent ends, do not stop; 0: stop */
	int watch_fd[WATCH_MAX];
	unsigned watch_fds;
	pid_t watch_pid[WATCH_MAX];
	unsigned watch_pids;
	uint64_t stop_on; /* bit N-1 is signal N */

	enum scope forward_to;
	enum process_group process_group;
	uint8_t rewrite[SIGNAL_MAX + 1]; /* 0: as it is; REWRITE_DROP: not at all */

	struct rights rights; /* of the command */
	enum contain contain;
	const char *id; /* of the run, "auto" if one is to be made up; NULL: none */

	bool preserve_status;
	uint8_t remap[256 / 8]; /* a bit for each status that becomes 0 */

	int status_fd; /* -1: none */
	unsigned verbose;
	bool tell_reaped;

	struct called_as as;
};

/* What treewrap does without options. */
void options_default(struct options *opt);

/*
 * Reads ARGC and ARGV into OPT. Bad input ends the process with one line on
 * standard error and status 125; --help, --version and -l print and end it with 0.
 * Keeps pointers into ARGV; allocates what rights_find_user() does, with --user.
 */
void options_parse(struct options *opt, int argc, char **argv);

/*
 * A DURATION of spec section 2 ("1.5", "250ms", "2h") in nanoseconds, never rounded
 * down to 0. Returns false and leaves *NS alone if WORD is anything else.
 */
bool duration_parse(const char *word, int64_t *ns);

#endif
