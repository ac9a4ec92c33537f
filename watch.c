/*
 * Promises: nothing is ever read from what is watched. A process is watched as a process:
 * the end of a thread of it means nothing, and its number may be recycled without harm,
 * for a pidfd holds on to it.
 */
#include "watch.h"
#include "kernel.h"
#include "let_go.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void add(struct watches *watches, int fd, short events, enum cause cause)
{
	watches->watch[watches->count++] = (struct watch){fd, events, cause};
}

/* A pidfd above 2, or -1 and errno. */
static int open_process(pid_t pid)
{
	return descriptor_above_2((int)syscall(SYS_pidfd_open, pid, 0));
}

static void watch_stdin(struct watches *watches, struct status *status)
{
	struct stat st;

	if (fstat(STDIN_FILENO, &st) < 0)
		die("--watch-stdin: standard input is closed");
	if (S_ISREG(st.st_mode) || (S_ISCHR(st.st_mode) && !isatty(STDIN_FILENO)))
		say_more(status,
			 "--watch-stdin: standard input is no pipe, socket or terminal "
			 "and never hangs up");
	/* A socket's peer may close its sending side alone. */
	add(watches, STDIN_FILENO, POLLRDHUP, CAUSE_STDIN);
}

static void watch_parent(struct watches *watches, const struct options *opt,
			 struct status *status)
{
	const pid_t parent = getppid();

	if (parent == 0) {
		/* As under "docker exec": it lives outside our PID namespace. */
		if (watches->count + opt->watch_fds + opt->watch_pids == 0)
			die("--watch-parent: the parent is outside this PID namespace "
			    "and cannot "
			    "be watched; use --watch-stdin");
		say(status,
		    "--watch-parent: the parent is outside this PID namespace and cannot "
		    "be watched");
		return;
	}
	const int fd = open_process(parent);
	if (fd < 0)
		die("--watch-parent: cannot watch process %d: %s", (int)parent,
		    strerror(errno));
	/* It may have died, and its number gone to another, between the two calls; then
	 * we have a new parent by now. */
	if (getppid() != parent)
		die("--watch-parent: the parent, process %d, is gone already",
		    (int)parent);
	add(watches, fd, POLLIN, CAUSE_PARENT);
}

/* False if PID is gone. */
static bool watch_pid(struct watches *watches, pid_t pid)
{
	const int fd = open_process(pid);
	struct pollfd death = {.fd = fd, .events = POLLIN};

	if (fd < 0 && errno == ESRCH)
		return false;
	if (fd < 0)
		die("--watch-pid: cannot watch process %d: %s", (int)pid,
		    strerror(errno));
	add(watches, fd, POLLIN, CAUSE_PID);
	return poll(&death, 1, 0) == 0;
}

bool watches_open(struct watches *watches, const struct options *opt,
		  struct status *status)
{
	watches->count = 0;
	if (opt->watch_stdin)
		watch_stdin(watches, status);
	if (opt->watch_parent)
		watch_parent(watches, opt, status);
	for (unsigned i = 0; i < opt->watch_fds; i++) {
		struct pollfd fd = {.fd = opt->watch_fd[i], .events = POLLRDHUP};
		if (poll(&fd, 1, 0) == 1 && (fd.revents & POLLNVAL) != 0)
			die("--watch-fd: descriptor %d cannot be polled", fd.fd);
		add(watches, fd.fd, POLLRDHUP, CAUSE_FD);
	}
	for (unsigned i = 0; i < opt->watch_pids; i++) {
		if (!watch_pid(watches, opt->watch_pid[i])) {
			say(status,
			    "--watch-pid: process %d is gone already: '%s' is not run",
			    (int)opt->watch_pid[i], opt->name);
			return false;
		}
	}
	return true;
}
