/*
 * Promises: nothing is ever read from what is watched. A process is watched as a process:
 * the end of a thread of it means nothing, and its number may be recycled without harm,
 * for a pidfd holds on to it.
 */
#include "watch.h"
#include "descriptor.h"
#include "kernel.h"
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

/*
 * WATCH on the process PID: by its pidfd, or, where those are refused (EPERM by filters)
 * or not known yet, by its directory in /proc. Its descriptor is above 2. False and errno
 * if neither can be had; ESRCH if it is gone.
 */
static bool open_process(struct watch *watch, pid_t pid, enum cause cause)
{
	const int pidfd = descriptor_above_2((int)syscall(SYS_pidfd_open, pid, 0));

	*watch = (struct watch){pidfd, POLLIN, cause, false};
	if (pidfd >= 0 || (errno != ENOSYS && errno != EPERM))
		return pidfd >= 0;
	const int why = errno;
	const int proc = proc_open();
	if (proc < 0) {
		errno = why;
		return false;
	}
	*watch = (struct watch){proc_open_process(proc, pid), 0, cause, true};
	close(proc);
	return watch->fd >= 0;
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
	struct watch *watch = &watches->watch[watches->count];
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
	if (!open_process(watch, parent, CAUSE_PARENT))
		die("--watch-parent: cannot watch process %d: %s", (int)parent,
		    strerror(errno));
	/* It may have died, and its number gone to another, between the two calls; then
	 * we have a new parent by now. */
	if (getppid() != parent)
		die("--watch-parent: the parent, process %d, is gone already",
		    (int)parent);
	watches->count++;
}

bool watch_is_over(const struct watch *watch, short revents)
{
	return watch->unpolled ? !proc_lives(watch->fd) : revents != 0;
}

/* False if PID is gone. */
static bool watch_pid(struct watches *watches, pid_t pid)
{
	struct watch *watch = &watches->watch[watches->count];

	if (!open_process(watch, pid, CAUSE_PID)) {
		if (errno == ESRCH)
			return false;
		die("--watch-pid: cannot watch process %d: %s", (int)pid,
		    strerror(errno));
	}
	watches->count++;
	struct pollfd death = {.fd = watch->fd, .events = watch->events};
	return poll(&death, 1, 0) >= 0 && !watch_is_over(watch, death.revents);
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
