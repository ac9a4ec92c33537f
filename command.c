/*
 * Promises: the command starts with the environment, directory, descriptors, signal
 * mask and ignored signals that treewrap was started with; whatever keeps it from
 * running is told apart (not there: 127; there but not runnable: 126).
 *
 * The child must not return from child() nor touch what it does not own: it shares
 * the reaper's memory, on a stack of its own, so that starting costs no copy of page
 * tables. It writes to: its stack, the static buffers below, two environment slots and
 * command[-1], command[0]; none of which the reaper reads afterwards.
 */
#include "command.h"
#include "descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CHILD_STACK_SIZE 16384
#define PATH_SIZE	 4096

/* So often a child that came first looks whether the reaper has left the group. */
#define LEAVING_NS 10000

/* All that the child needs. */
struct birth {
	const struct options *opt;
	const struct inherited *inherited;
	pid_t owner, shim;
	pid_t shim_group; /* which the owner is about to leave; NOT_LEFT: it does not */
	bool own_group;
	int report;
	const struct cgroup
		*join; /* to be joined before the exec; NULL: none, or in it */
};

/* True if this process has a controlling terminal. */
static bool has_terminal(void)
{
	const int fd = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);

	if (fd >= 0) {
		close(fd);
		return true;
	}
	if (errno == ENXIO)
		return false;
	/* No usable /dev/tty: tcgetpgrp(3) works on one's own terminal alone. */
	return tcgetpgrp(STDIN_FILENO) >= 0 || tcgetpgrp(STDOUT_FILENO) >= 0 ||
	       tcgetpgrp(STDERR_FILENO) >= 0;
}

/* NAME=PID becomes NAME=our own pid where it named the shim (systemd's protocols). */
static void adopt_pid_variable(const char *name, pid_t shim, char text[32])
{
	const size_t length = strlen(name);
	char shim_text[16];

	/* Ends: the environment ends in NULL. */
	for (char **slot = environ; *slot != NULL; slot++) {
		if (strncmp(*slot, name, length) != 0 || (*slot)[length] != '=')
			continue;
		/* Seldom, so only here. */
		snprintf(shim_text, sizeof(shim_text), "%d", (int)shim);
		if (strcmp(*slot + length + 1, shim_text) == 0) {
			snprintf(text, 32, "%s=%d", name, (int)getpid());
			*slot = text;
		}
	}
}

/* Becomes PATH; returns only on failure, with errno. A script without #! is sh's. */
static void become(char **command, char *path)
{
	execve(path, command, environ);
	if (errno != ENOEXEC)
		return;
	char *const name = command[0];
	command[-1] = (char[]){"/bin/sh"};
	command[0] = path;
	execve("/bin/sh", command - 1, environ);
	command[0] = name;
}

/* What kept PATH, which exists, from running. */
static struct failure cannot(const char *path, int error)
{
	struct failure failure = {STATUS_CANNOT, error, NULL, NULL};
	struct stat st;

	if (error == EACCES && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		failure.reason = "it is a directory";
	else if (error == ENOENT)
		failure.reason = "the interpreter or loader that it names is missing";
	return failure;
}

/*
 * Tries NAME in every directory of PATH as execvp(3) does: what is not there or may
 * not be run does not end the search, anything else does.
 */
static struct failure search(char **command, const char *name)
{
	static char path[PATH_SIZE];
	struct failure found = {STATUS_NOT_FOUND, ENOENT, NULL, NULL};
	const size_t name_size = strlen(name) + 1;
	const char *dir = getenv("PATH");

	/* Ends: every turn moves DIR behind the next colon, the last breaks. */
	for (dir = dir != NULL ? dir : "/bin:/usr/bin";;) {
		const size_t length = strcspn(dir, ":");
		if (length + name_size + 1 <= sizeof(path)) {
			memcpy(path, dir, length);
			path[length] = '/';
			memcpy(path + length + (length > 0), name, name_size);
			become(command, path);
			const int error = errno;
			/* A directory we may not look into holds nothing for us. */
			if (access(path, F_OK) == 0) {
				if (found.status == STATUS_NOT_FOUND)
					found = cannot(path, error);
				if (error != EACCES && error != ENOENT)
					return cannot(path, error);
			}
		}
		if (dir[length] == '\0')
			return found;
		dir += length + 1;
	}
}

static struct failure run(const struct options *opt)
{
	const char *name = opt->name;
	int error;

	if (name[0] == '\0')
		return (struct failure){STATUS_NOT_FOUND, ENOENT, NULL, NULL};
	if (strchr(name, '/') == NULL)
		return search(opt->command, name);
	become(opt->command, opt->command[0]);
	error = errno;
	if (access(name, F_OK) == 0)
		return cannot(name, error);
	if (errno == ENOENT || errno == ENOTDIR)
		return (struct failure){STATUS_NOT_FOUND, errno, NULL, NULL};
	return (struct failure){STATUS_CANNOT, error, NULL, NULL};
}

/*
 * Last resort if shim and reaper are killed at one time. The reaper may have died before
 * this call: then nobody would send the signal.
 */
static void die_with_parent(const struct birth *birth)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != birth->owner)
		_exit(STATUS_FAILED);
}

/*
 * Nothing of the command's runs before the reaper has left the shim's group, for what
 * kills that would kill all three of us and nothing else. Ends: it does nothing before,
 * and if it dies we die with it.
 */
static void wait_for_parent_to_leave(const struct birth *birth)
{
	const struct timespec pause = {0, LEAVING_NS};

	while (birth->shim_group != NOT_LEFT &&
	       getpgid(birth->owner) == birth->shim_group)
		nanosleep(&pause, NULL);
}

/* What needs our privileges, and then the loss of them. NULL, or what failed, and errno.
 */
static const char *prepare(const struct birth *birth)
{
	if (birth->join != NULL && cgroup_join(birth->join) < 0)
		return "its cgroup does not take it";
	if (!rights_are_asked(&birth->opt->rights))
		return NULL;
	const char *failed = rights_take(&birth->opt->rights);
	if (failed == NULL)
		/* A change of user has cleared it. */
		die_with_parent(birth);
	return failed;
}

/* With the terminal that is standard input, if that is one and nobody's. */
static void lead_session(void)
{
	setsid();
	ioctl(STDIN_FILENO, TIOCSCTTY, 0);
}

/* The command's process before its exec. Never returns. */
static int child(void *argument)
{
	static char listen_pid[32], watchdog_pid[32];
	const struct birth *birth = argument;
	struct failure failure;

	/* Neither can fail: a new process leads nothing. */
	if (birth->opt->process_group == GROUP_SESSION)
		lead_session();
	else if (birth->own_group)
		setpgid(0, 0);
	die_with_parent(birth);
	wait_for_parent_to_leave(birth);
	adopt_pid_variable("LISTEN_PID", birth->shim, listen_pid);
	adopt_pid_variable("WATCHDOG_PID", birth->shim, watchdog_pid);
	signals_give_back(birth->inherited);
	const char *step = prepare(birth);
	if (step != NULL)
		failure = (struct failure){STATUS_FAILED, errno, NULL, step};
	else
		failure = run(birth->opt);
	/* A few bytes into an empty pipe: written whole, or the reaper is gone. */
	if (write(birth->report, &failure, sizeof(failure)) < 0)
		_exit(STATUS_FAILED);
	_exit(failure.status);
}

/*
 * Its process. Into a cgroup it is born where the kernel can do that, as a copy of us; to
 * become another user it has to be a copy too, for libraries keep in memory what a
 * process may do; else it shares our memory.
 */
static pid_t bear(struct birth *birth, const struct cgroup *cgroup)
{
	static char stack[CHILD_STACK_SIZE] __attribute__((aligned(16)));
	pid_t pid;

	if (cgroup != NULL) {
		pid = cgroup_fork_into(cgroup);
		if (pid == 0)
			child(birth);
		if (pid > 0)
			return pid;
	}
	birth->join = cgroup;
	if (!rights_are_asked(&birth->opt->rights)) {
		pid = clone(child, stack + sizeof(stack), CLONE_VM | SIGCHLD, birth);
		/* qemu-user shares memory only with threads: take a copy there. */
		if (pid >= 0 || errno != EINVAL)
			return pid;
	}
	return clone(child, stack + sizeof(stack), SIGCHLD, birth);
}

bool command_leads_group(const struct options *opt)
{
	return opt->process_group == GROUP_NEW || opt->process_group == GROUP_SESSION ||
	       (opt->process_group == GROUP_BY_TERMINAL && !has_terminal());
}

int command_start(struct command *cmd, const struct options *opt,
		  const struct inherited *inherited, const struct cgroup *cgroup,
		  pid_t owner, pid_t shim, pid_t shim_group)
{
	static struct birth birth;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	ends[0] = descriptor_above_2(ends[0]);
	ends[1] = descriptor_above_2(ends[1]);
	if (ends[0] < 0 || ends[1] < 0)
		return -1;
	cmd->progress = ends[0];
	birth = (struct birth){.opt = opt,
			       .inherited = inherited,
			       .owner = owner,
			       .shim = shim,
			       .shim_group = shim_group,
			       .own_group = cmd->own_group,
			       .report = ends[1]};
	cmd->missed = signals_pending();
	cmd->pid = bear(&birth, cgroup);
	if (cmd->pid > 0) {
		close(ends[1]);
		return 0;
	}
	const int why = errno;
	close(ends[0]);
	close(ends[1]);
	errno = why;
	return -1;
}

bool command_progress(struct command *cmd, struct failure *failure)
{
	const ssize_t got = read(cmd->progress, failure, sizeof(*failure));

	close(cmd->progress);
	cmd->progress = -1;
	return got != (ssize_t)sizeof(*failure);
}
