/*
 * The command's own process, from its birth to its exec: everything between
 * "treewrap started it" and "it runs".
 */
#ifndef COMMAND_H
#define COMMAND_H

#include "cgroup.h"
#include "options.h"
#include "signals.h"

#include <stdbool.h>
#include <sys/types.h>

/* A command that has been born but may not have reached its exec. */
struct command {
	pid_t pid;
	bool own_group; /* it leads a process group of its own: PID is its number */
	int progress; /* pipe: closes at exec or death, brings a struct failure before */
	uint64_t missed; /* signals that came to us before it was born: not to it */
};

/* Why an exec did not happen. */
struct failure {
	int status;	    /* STATUS_CANNOT, STATUS_NOT_FOUND or STATUS_FAILED */
	int error;	    /* errno */
	const char *reason; /* a constant text where errno's does not say it, or NULL */
	const char *step;   /* a constant text: what failed before the exec, or NULL */
};

/* No process group: 0 is one that is led from outside our PID namespace. */
#define NOT_LEFT (-1)

/* Is OPT's command to lead a process group of its own? If not it is born into ours. */
bool command_leads_group(const struct options *opt);

/*
 * Starts OPT's command in a new process with what INHERITED holds, and with a group as
 * CMD says. OWNER is the caller's process id, SHIM the one that the caller of treewrap
 * knows, for LISTEN_PID and the like. SHIM_GROUP, if not NOT_LEFT, is the process group
 * that the caller leaves at once after that: so long the command waits. CGROUP, if not
 * NULL, is where it is born. Returns 0 with CMD filled, or -1 and errno.
 *
 * THE CHILD RUNS IN OUR MEMORY until its exec, as after vfork(2), but beside us and
 * not before us, so that a deadline holds even if the exec hangs. Until its progress pipe
 * is readable, call nothing that can fail: errno is the child's as well as ours.
 */
int command_start(struct command *cmd, const struct options *opt,
		  const struct inherited *inherited, const struct cgroup *cgroup,
		  pid_t owner, pid_t shim, pid_t shim_group);

/*
 * Reads CMD's progress pipe once it is readable or hung up, and closes it. True: the
 * exec has been done (or the process was killed on its way: wait tells). False:
 * FAILURE says why not.
 */
bool command_progress(struct command *cmd, struct failure *failure);

#endif
