/*
 * Promises: no name that a process gives itself confuses the reading; every loop ends
 * with the file or directory that it reads.
 */
#include "proc.h"
#include "descriptor.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* linux_dirent64, see getdents64(2). */
struct entry {
	uint64_t inode, offset;
	uint16_t size;
	uint8_t type;
	char name[];
};

void proc_read_text(int fd, char *text, size_t size)
{
	const ssize_t got = fd < 0 ? 0 : read(fd, text, size - 1);

	text[got > 0 ? got : 0] = '\0';
	if (fd >= 0)
		close(fd);
}

static void read_link(int directory, const char *name, char *text, size_t size)
{
	const ssize_t length = readlinkat(directory, name, text, size - 1);

	text[length > 0 ? length : 0] = '\0';
}

/*
 * A process's numbers in STATUS, its status file: one for each PID namespace that it is
 * in, from that of the /proc down to its own, INNERMOST. Returns how many are listed.
 */
static int namespace_numbers(const char *status, long *innermost)
{
	static const char key[] = "\nNSpid:";
	const char *at = strstr(status, key);
	int count = 0;

	if (at == NULL)
		return 0;
	at += strlen(key);
	/* Ends: every turn takes a number, and the line has an end. */
	for (char *end; *at == '\t'; at = end, count++)
		*innermost = strtol(at, &end, 10);
	return count;
}

/*
 * Is PROC of our own PID namespace? Elsewhere we have another number, but it may be the
 * same by chance: there, we have a list of them, from that namespace's down to ours.
 */
static bool is_ours(int proc)
{
	char text[4096];

	long innermost;

	read_link(proc, "self", text, sizeof(text));
	if (strtol(text, NULL, 10) != getpid())
		return false;
	proc_read_text(openat(proc, "self/status", O_RDONLY | O_CLOEXEC), text,
		       sizeof(text));
	/* None: a kernel that does not list them. */
	return namespace_numbers(text, &innermost) <= 1;
}

int proc_open(void)
{
	const int proc =
		descriptor_above_2(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));

	if (proc < 0 || is_ours(proc))
		return proc;
	close(proc);
	errno = ENOENT;
	return -1;
}

int proc_open_file(int proc, pid_t pid, const char *file)
{
	char path[96];

	snprintf(path, sizeof(path), "%d/%.80s", (int)pid, file);
	return openat(proc, path, O_RDONLY | O_CLOEXEC);
}

/* From FD, which it closes. */
static bool read_stat(int fd, struct proc_stat *stat)
{
	char text[1024];

	if (fd < 0)
		return false;
	const ssize_t got = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (got <= 0)
		return false;
	text[got] = '\0';
	/* The name may hold anything, spaces and ')' too: it ends at the last ')'. */
	const char *open = strchr(text, '(');
	char *close = strrchr(text, ')');
	if (open == NULL || close == NULL || close < open || strlen(close) < 3)
		return false;
	snprintf(stat->command, sizeof(stat->command), "%.*s", (int)(close - open - 1),
		 open + 1);
	stat->state = close[2];
	char *field = close + 3;
	uint64_t values[23] = {0};
	for (int i = 4; i <= 22; i++)
		values[i] = strtoull(field, &field, 10);
	stat->parent = (pid_t)values[4];
	stat->session = (pid_t)values[6];
	stat->cpu = values[14] + values[15];
	stat->threads = (long)values[20];
	stat->start = values[22];
	return true;
}

int proc_open_children(int proc, pid_t pid, pid_t thread)
{
	char path[48];

	snprintf(path, sizeof(path), "task/%d/children", (int)thread);
	return proc_open_file(proc, pid, path);
}

int proc_count_threads(int proc, pid_t pid)
{
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "%d/task", (int)pid);
	if (fstatat(proc, path, &st, 0) < 0)
		return -1;
	/* The directory has a link for each thread beside its own two. */
	return st.st_nlink > 2 ? (int)st.st_nlink - 2 : 0;
}

bool proc_read_stat(int proc, pid_t pid, struct proc_stat *stat)
{
	return read_stat(proc < 0 ? -1 : proc_open_file(proc, pid, "stat"), stat);
}

bool proc_is_over(const struct proc_stat *stat)
{
	return stat->state == 'X' || (stat->state == 'Z' && stat->threads <= 1);
}

int proc_open_process(int proc, pid_t pid)
{
	const int process = descriptor_above_2(proc_open_file(proc, pid, ""));

	if (process < 0 && errno == ENOENT)
		errno = ESRCH;
	return process;
}

bool proc_lives(int process)
{
	struct proc_stat stat;
	const int fd = openat(process, "stat", O_RDONLY | O_CLOEXEC);

	/* Whatever else fails says nothing of the process. */
	if (fd < 0)
		return errno != ENOENT && errno != ESRCH;
	return read_stat(fd, &stat) && !proc_is_over(&stat);
}

/* Does the process NUMBER of PROC descend from ANCESTOR? */
static bool descends(int proc, pid_t number, pid_t ancestor)
{
	struct proc_stat stat;

	/* Ends: at the latest with a number that is not there. What changes under our
	 * hands may mislead, but not for ever. */
	for (int i = 0; i < 4096 && number > 1; i++) {
		if (number == ancestor)
			return true;
		if (!proc_read_stat(proc, number, &stat))
			return false;
		number = stat.parent;
	}
	return false;
}

pid_t proc_number_by_pidfd(int outside, pid_t pid)
{
	static const char key[] = "\nPid:\t";
	char path[48], text[1024];
	const int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (pidfd < 0)
		return 0;
	snprintf(path, sizeof(path), "self/fdinfo/%d", pidfd);
	proc_read_text(openat(outside, path, O_RDONLY | O_CLOEXEC), text, sizeof(text));
	close(pidfd);
	const char *at = strstr(text, key);
	const long number = at == NULL ? 0 : strtol(at + strlen(key), NULL, 10);
	return number > 0 ? (pid_t)number : 0;
}

pid_t proc_number_outside(int outside, pid_t pid)
{
	const pid_t quick = proc_number_by_pidfd(outside, pid);
	char text[4096];
	struct proc_entries all = {.fd = -1};
	pid_t number, found = pid;
	long innermost;

	if (quick > 0)
		return quick;
	read_link(outside, "self", text, sizeof(text));
	const pid_t own = (pid_t)strtol(text, NULL, 10);
	all.fd = openat(outside, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* Ends with the directory. */
	while (all.fd >= 0 && found == pid && (number = proc_next_entry(&all)) != 0) {
		proc_read_text(proc_open_file(outside, number, "status"), text,
			       sizeof(text));
		if (namespace_numbers(text, &innermost) > 0 && innermost == pid &&
		    descends(outside, number, own))
			found = number;
	}
	if (all.fd >= 0)
		close(all.fd);
	return found;
}

bool proc_hides(int proc)
{
	return faccessat(proc, "1", F_OK, 0) < 0;
}

bool proc_is_frozen(int proc, pid_t pid)
{
	char text[4096], path[4096 + 64];

	if (proc < 0)
		return false;
	/* Lines like "7:freezer:/some/group". */
	proc_read_text(proc_open_file(proc, pid, "cgroup"), text, sizeof(text));
	char *group = strstr(text, ":freezer:");
	if (group == NULL)
		return false;
	group += strlen(":freezer:");
	group[strcspn(group, "\n")] = '\0';
	snprintf(path, sizeof(path), "/sys/fs/cgroup/freezer%s/freezer.state", group);
	proc_read_text(open(path, O_RDONLY | O_CLOEXEC), text, sizeof(text));
	return strncmp(text, "FROZEN", 6) == 0;
}

int proc_running(int proc)
{
	char text[64];

	/* Three averages, then "running/all": see proc_loadavg(5). */
	proc_read_text(openat(proc, "loadavg", O_RDONLY | O_CLOEXEC), text, sizeof(text));
	const char *at = strchr(text, '/');
	if (at == NULL)
		return INT_MAX;
	while (at > text && isdigit((unsigned char)at[-1]))
		at--;
	return (int)strtol(at, NULL, 10);
}

/* One more character of the file, or -1 at its end. */
static int next_char(struct proc_numbers *numbers)
{
	if (numbers->next == numbers->length) {
		const ssize_t got = pread(numbers->fd, numbers->piece,
					  sizeof(numbers->piece), numbers->offset);
		if (got <= 0)
			return -1;
		numbers->offset += got;
		numbers->length = (size_t)got;
		numbers->next = 0;
	}
	return numbers->piece[numbers->next++];
}

pid_t proc_next_number(struct proc_numbers *numbers)
{
	pid_t value = 0;
	int c;

	/* The kernel writes "%d " and no more; a number may lie across two pieces. */
	while ((c = next_char(numbers)) >= 0) {
		if (isdigit(c))
			value = value * 10 + (c - '0');
		else if (value > 0)
			return value;
	}
	return value;
}

const char *proc_next_name(struct proc_entries *entries, uint8_t *type)
{
	if (entries->next >= entries->length) {
		/* Raw, for opendir(3) allocates. */
		entries->length = syscall(SYS_getdents64, entries->fd, entries->piece,
					  sizeof(entries->piece));
		entries->next = 0;
		if (entries->length <= 0)
			return NULL;
	}
	const struct entry *entry = (const void *)(entries->piece + entries->next);
	entries->next += entry->size;
	*type = entry->type;
	return entry->name;
}

pid_t proc_next_entry(struct proc_entries *entries)
{
	const char *name;
	uint8_t type;

	/* Ends with the directory. */
	while ((name = proc_next_name(entries, &type)) != NULL)
		if (isdigit((unsigned char)name[0]))
			return (pid_t)strtol(name, NULL, 10);
	return 0;
}
