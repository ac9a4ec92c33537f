/*
 * Promises: what is sent to a member reaches that member or nobody.
 *
 * How a signal is kept from a stranger. A number can be recycled only when its holder has
 * been reaped. So
 *  - a child of the owner may be signalled by number: only the owner could reap it, and
 *    does not between walk and signal;
 *  - for a deeper process, take a pidfd: it holds on to whatever process has the number
 *    now. Then ask for its parent: the number under which it was found. Then see that the
 *    parent is still the same live member: so the number meant that member all along, and
 *    the process is its child. The signal goes through the pidfd.
 *  - a member met earlier in the list is met again by a new pidfd and its ID: pidfs gives
 *    each process an inode number that is never used twice; older kernels have the start
 *    time, which repeats only if all numbers go round within one tick of 10 ms and the
 *    parent's number did the same.
 */
#include "member.h"
#include "kernel.h"
#include "proc.h"

#include <errno.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* linux/pidfd.h since 6.13; the ioctl's number holds the size. */
struct process_info {
	uint64_t mask, cgroup;
	uint32_t pid, tgid, ppid, ids[8], unused;
};
#define GET_PROCESS_INFO    _IOWR(0xFF, 11, struct process_info)
#define PROCESS_INFO_WANTED 1

int member_open(struct tree *tree, pid_t pid)
{
	if (tree->no_pidfd)
		return -1;
	const int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	/* Filters answer EPERM to what they do not know, old kernels ENOSYS. */
	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		tree->no_pidfd = true;
	return fd;
}

bool member_identify(struct tree *tree, pid_t pid, int pidfd, pid_t *parent, uint64_t *id)
{
	if (pidfd >= 0 && !tree->no_pidfd_info) {
		struct process_info info = {.mask = PROCESS_INFO_WANTED};
		struct stat st;
		if (ioctl(pidfd, GET_PROCESS_INFO, &info) == 0 &&
		    fstat(pidfd, &st) == 0) {
			*parent = (pid_t)info.ppid;
			*id = st.st_ino;
			return true;
		}
		if (errno == ESRCH)
			return false;
		tree->no_pidfd_info = true;
	}
	struct proc_stat line;
	if (!proc_read_stat(tree->proc, pid, &line))
		return false;
	*parent = line.parent;
	*id = line.start;
	return true;
}

bool member_meet_again(struct tree *tree, const struct member *member, int *pidfd)
{
	pid_t parent;
	uint64_t id;

	*pidfd = -1;
	if (member->child)
		return true;
	*pidfd = member_open(tree, member->pid);
	if (*pidfd < 0 && !tree->no_pidfd)
		return false;
	if (member_identify(tree, member->pid, *pidfd, &parent, &id) && id == member->id)
		return true;
	if (*pidfd >= 0)
		close(*pidfd);
	return false;
}

bool member_still_there(struct tree *tree, const struct member *member, int pidfd)
{
	struct pollfd death = {.fd = pidfd, .events = POLLIN};
	pid_t parent;
	uint64_t id;

	if (member->child)
		return true;
	if (pidfd >= 0)
		return poll(&death, 1, 0) == 0;
	return member_identify(tree, member->pid, -1, &parent, &id) && id == member->id;
}

int member_signal(const struct member *member, int pidfd, int signo,
		  const siginfo_t *info)
{
	siginfo_t copy;
	long failed;

	if (info != NULL)
		copy = *info;
	if (pidfd >= 0)
		failed = syscall(SYS_pidfd_send_signal, pidfd, signo, info ? &copy : NULL,
				 0);
	else if (info != NULL)
		failed = syscall(SYS_rt_sigqueueinfo, member->pid, signo, &copy);
	else
		/* The owner's unreaped child; or, where the kernel has no pidfds, a
		 * process identified a moment ago: the best there is before 5.3. */
		failed = kill(member->pid, signo);
	return failed == 0 ? 0 : errno;
}
