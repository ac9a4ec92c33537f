/*
 * Promises: nothing outside the namespaces is changed: mounts come in from outside, none
 * goes out; the only user that is known inside is the one who came.
 */
#include "pidns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

int pidns_flags(bool with_user)
{
	return CLONE_NEWPID | CLONE_NEWNS | (with_user ? CLONE_NEWUSER : 0);
}

static bool write_file(const char *path, const char *text)
{
	const int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	const bool whole = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	const int why = errno;
	close(fd);
	errno = why;
	return whole;
}

/* See user_namespaces(7): who may map nobody but himself may not change his groups. */
static bool map_user(uid_t user, gid_t group)
{
	char users[32], groups[32];

	snprintf(users, sizeof(users), "%u %u 1", user, user);
	snprintf(groups, sizeof(groups), "%u %u 1", group, group);
	/* The /proc is still that outside, where "self" is us all the same. */
	return write_file("/proc/self/uid_map", users) &&
	       write_file("/proc/self/setgroups", "deny") &&
	       write_file("/proc/self/gid_map", groups);
}

/*
 * Mounts still come in from outside and none goes out. Where "/" is no mount point, as in
 * most chroots, it is enough if the one below our new /proc is so. (A namespace of
 * another user's is made so by the kernel.)
 */
static bool keep_mounts_in(bool with_user)
{
	return mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL) == 0 ||
	       (errno == EINVAL &&
		(mount(NULL, "/proc", NULL, MS_SLAVE, NULL) == 0 || with_user));
}

bool pidns_enter(bool with_user, uid_t user, gid_t group, char *why, size_t size)
{
	const char *failed = NULL;

	/* (What a file's capabilities have made us: then our own files are root's, these
	 * too. Whom this lets in finds nothing here that he has not.) */
	if (with_user)
		prctl(PR_SET_DUMPABLE, 1);
	if (with_user && !map_user(user, group))
		failed = "cannot map the user";
	else if (!keep_mounts_in(with_user))
		failed = "cannot make the mounts private";
	else if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) <
		 0)
		failed = "cannot mount a /proc";
	if (failed != NULL)
		snprintf(why, size, "%s: %s", failed, strerror(errno));
	return failed == NULL;
}
