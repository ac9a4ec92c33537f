/*
 * Promises: after let_go() nobody can notice by an open pipe, a file, a lock or a busy
 * file system that treewrap is still there.
 */
#include "let_go.h"
#include "kernel.h"
#include "proc.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* Those that /proc lists. False if it has no such list. */
static bool close_listed(unsigned first, unsigned last)
{
	struct proc_entries entries = {
		.fd = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
	const char *name;
	uint8_t type;

	if (entries.fd < 0)
		return false;
	/* Ends with the directory. */
	while ((name = proc_next_name(&entries, &type)) != NULL) {
		const unsigned long fd = strtoul(name, NULL, 10);
		if (isdigit((unsigned char)name[0]) && fd >= first && fd <= last &&
		    (int)fd != entries.fd)
			close((int)fd);
	}
	close(entries.fd);
	return true;
}

static void close_from_to(unsigned first, unsigned last)
{
	struct rlimit limit = {0, 0};

	if (first > last || syscall(SYS_close_range, first, last, 0) == 0)
		return;
	/* Older than Linux 5.9, or refused. */
	if (close_listed(first, last))
		return;
	/* One by one, up to what may be open. */
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur > 1048576)
		limit.rlim_cur = 1048576;
	for (unsigned fd = first; fd <= last && fd < limit.rlim_cur; fd++)
		close((int)fd);
}

/* A handful, where qsort(3) may allocate. */
static void sort(int numbers[], size_t count)
{
	for (size_t i = 1; i < count; i++) {
		const int number = numbers[i];
		size_t place = i;
		for (; place > 0 && numbers[place - 1] > number; place--)
			numbers[place] = numbers[place - 1];
		numbers[place] = number;
	}
}

static void close_all_but(int keep[], size_t count)
{
	unsigned next = 0;

	sort(keep, count);
	for (size_t i = 0; i < count; i++) {
		if (keep[i] < 0)
			continue;
		if ((unsigned)keep[i] > next)
			close_from_to(next, (unsigned)keep[i] - 1);
		next = (unsigned)keep[i] + 1;
	}
	close_from_to(next, UINT_MAX);
}

void let_go(int keep[], size_t count, struct privs *privs, bool other_user)
{
	close_all_but(keep, count);
	/* If the root is not to be entered we hold the old directory, and what privileges
	 * cannot be dropped we keep: the command runs, and neither is a reason to end it.
	 */
	const bool all = chdir("/") == 0 && privs_keep(privs, other_user) == 0;
	(void)all;
}
