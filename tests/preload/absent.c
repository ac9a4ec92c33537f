/*
 * To be preloaded: files whose name, behind the last slash, is the value of ABSENT are
 * not there, as in a kernel that does not have them. ("children" needs
 * CONFIG_PROC_CHILDREN, "cgroup.kill" Linux 5.14; kernels that lack them are hard to come
 * by.)
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int openat(int directory, const char *path, int flags, ...)
{
	const char *slash = strrchr(path, '/');
	const char *absent = getenv("ABSENT");
	va_list more;

	if (absent != NULL && strcmp(slash != NULL ? slash + 1 : path, absent) == 0) {
		errno = ENOENT;
		return -1;
	}
	va_start(more, flags);
	const unsigned mode = (flags & O_CREAT) != 0 ? va_arg(more, unsigned) : 0;
	va_end(more);
	return (int)syscall(SYS_openat, directory, path, flags, mode);
}
