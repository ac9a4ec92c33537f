/*
 * Promises: nothing is ever read from what is watched. A process is watched as a process:
 * the end of a thread of it means nothing, and its number may be recycled without harm,
 * for a pidfd holds on to it.
 */
#include "watch.h"
#include "kernel.h"
#include "let_go.h"
#include "proc.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void add(struct watches *watches, int fd, short events, enum cause cause)
{
	watches->watch[watches->count++] = (struct watch){fd, events, cause, false};
}

static void add_process(struct watches *watches, int fd, bool unpolled, enum cause cause)
{
	const short events = unpolled ? 0 : POLLIN;

	watches->watch[watches->count++] = (struct watch){fd, events, cause, unpolled};
}

/*
 * A descriptor above 2 that stands for the process PID: its pidfd, or, where those are
 * refused (EPERM by filters) or not known yet, its directory in /proc, UNPOLLED. -1 and
 * errno if neither can be had; ESRCH if it is gone.
 */
static int open_process(pid_t pid, bool *unpolled)
{
	const int pidfd = descriptor_above_2((int)syscall(SYS_pidfd_open, pid, 0));

	*unpolled = pidfd < 0 && (errno == ENOSYS || errno == EPERM);
	if (!*unpolled)
		return pidfd;
	const int why = errno;
	const int proc = proc_open();
	if (proc < 0) {
		errno = why;
		return -1;
	}
	const int process = proc_open_process(proc, pid);
	close(proc);
	return process;
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
	bool unpolled;

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
	const int fd = open_process(parent, &unpolled);
	if (fd < 0)
		die("--watch-parent: cannot watch process %d: %s", (int)parent,
		    strerror(errno));
	/* It may have died, and its number gone to another, between the two calls; then
	 * we have a new parent by now. */
	if (getppid() != parent)
		die("--watch-parent: the parent, process %d, is gone already",
		    (int)parent);
	add_process(watches, fd, unpolled, CAUSE_PARENT);
}

/* False if PID is gone. */
static bool watch_pid(struct watches *watches, pid_t pid)
{
	bool unpolled;
	const int fd = open_process(pid, &unpolled);
	struct pollfd death = {.fd = fd, .events = POLLIN};

	if (fd < 0 && errno == ESRCH)
		return false;
	if (fd < 0)
		die("--watch-pid: cannot watch process %d: %s", (int)pid,
		    strerror(errno));
	add_process(watches, fd, unpolled, CAUSE_PID);
	return unpolled ? proc_lives(fd) : poll(&death, 1, 0) == 0;
}

bool watch_is_over(const struct watch *watch, short revents)
{
	return watch->unpolled ? !proc_lives(watch->fd) : revents != 0;
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
