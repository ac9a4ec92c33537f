/*
 * Promises: nothing is written to a cgroup but ours, and ours is of our making; a cgroup
 * is removed only if nobody is in it (the kernel sees to that) and the run that made it
 * has gone.
 * Does not promise: to find what has been moved out of it. That is found as long as it is
 * a descendant, see tree.c.
 */
#include "cgroup.h"
#include "clock.h"
#include "descriptor.h"
#include "kernel.h"
#include "proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PREFIX	  "treewrap-"
#define TRIES	  16
#define DEPTH_MAX 16 /* of cgroups in ours that are looked into */
#define STEPS_MAX 65536

/* ---- where we are ---- */

/* Our path in the hierarchy of version 2: the line "0::/path" of /proc/self/cgroup. */
static bool read_own_path(char *path, size_t size)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[CGROUP_PATH_SIZE + 8];
	bool found = false;

	if (file == NULL)
		return false;
	/* Ends with the file, as the loops over directories below end with them. */
	while (!found && fgets(line, sizeof(line), file) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		found = strncmp(line, "0::/", 4) == 0 && strlen(line + 3) < size;
	}
	fclose(file);
	if (found)
		snprintf(path, size, "%s", line + 3);
	return found;
}

/* Undoes what the kernel does to blanks in a mount's names ("\040"). In place. */
static void unescape(char *text)
{
	char *to = text;

	/* Ends: every turn moves FROM, and never past the end. */
	for (const char *from = text; *from != '\0'; to++) {
		if (from[0] == '\\' && strspn(from + 1, "01234567") >= 3) {
			*to = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 |
				     (from[3] - '0'));
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = '\0';
}

/*
 * A line of /proc/self/mountinfo (see proc(5)): does it show PATH, our cgroup? Opens it.
 * Fields: id, parent, device, root within the file system, mount point, ... - type.
 */
static int open_by_mount(char *line, const char *path)
{
	char *save = NULL, *field = strtok_r(line, " ", &save), *root = NULL,
	     *point = NULL;
	char place[2 * CGROUP_PATH_SIZE];
	struct statfs fs;

	for (int i = 1; field != NULL && i < 5; i++) {
		field = strtok_r(NULL, " ", &save);
		if (i == 3)
			root = field;
		else if (i == 4)
			point = field;
	}
	if (root == NULL || point == NULL || save == NULL ||
	    strstr(save, "- cgroup2 ") == NULL)
		return -1;
	unescape(root);
	unescape(point);
	/* Of a bind mount, or one made in another cgroup namespace, ROOT is not "/". */
	const size_t length = strcmp(root, "/") == 0 ? 0 : strlen(root);
	if (strncmp(path, root, length) != 0 ||
	    (path[length] != '/' && path[length] != '\0'))
		return -1;
	snprintf(place, sizeof(place), "%s%s", point, path + length);
	const int fd = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 && fstatfs(fd, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC)
		return descriptor_above_2(fd);
	if (fd >= 0)
		close(fd);
	return -1;
}

/* The directory of the cgroup that we are in, or -1. */
static int open_place(const char *path)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t size = 0;
	int place = -1;

	if (file == NULL)
		return -1;
	/* The last one that fits lies on top. */
	while (getline(&line, &size, file) > 0) {
		const int fd = open_by_mount(line, path);
		if (fd < 0)
			continue;
		if (place >= 0)
			close(place);
		place = fd;
	}
	free(line);
	fclose(file);
	return place;
}

static bool has_mark(int place, const char *attribute)
{
	char value;

	return fgetxattr(place, attribute, &value, 1) == 1 && value == '1';
}

/*
 * Has whoever manages the hierarchy left PLACE to us? systemd says so by an attribute;
 * and the root of a cgroup namespace, which has a cgroup.events as the hierarchy's own
 * root has not, is a container's own.
 */
static bool is_delegated(int place, const char *path)
{
	return has_mark(place, "user.delegate") || has_mark(place, "trusted.delegate") ||
	       (strcmp(path, "/") == 0 &&
		faccessat(place, "cgroup.events", F_OK, 0) == 0);
}

/* ---- reading and writing ---- */

static bool write_one(int fd, const char *text)
{
	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

static int open_file(int directory, const char *name, int flags)
{
	return descriptor_above_2(openat(directory, name, flags | O_CLOEXEC));
}

/* The number behind KEY in one of the cgroup's files, or behind nothing if KEY is "". -1
 * if it is not there. */
static int64_t read_number(int directory, const char *name, const char *key)
{
	char text[1024];

	proc_read_text(openat(directory, name, O_RDONLY | O_CLOEXEC), text, sizeof(text));
	const char *at = strstr(text, key);
	return at == NULL || text[0] == '\0' ? -1 : strtoll(at + strlen(key), NULL, 10);
}

bool cgroup_is_populated(const struct cgroup *cgroup)
{
	char text[256];
	/* Reading it is what makes poll(2) wait for the next change. */
	const ssize_t got = pread(cgroup->events, text, sizeof(text) - 1, 0);

	/* ENODEV: removed under our hands, which the kernel does not do to a living one.
	 */
	if (got <= 0)
		return got == 0 || errno != ENODEV;
	text[got] = '\0';
	return strstr(text, "populated 0") == NULL;
}

bool cgroup_holds(const struct cgroup *cgroup, int fd)
{
	char text[4096];
	const size_t length = strlen(cgroup->path);

	proc_read_text(fd, text, sizeof(text));
	/* The line of version 2 is the last; its path may go on below ours. */
	const char *line = strstr(text, "0::");
	while (line != NULL && line != text && line[-1] != '\n')
		line = strstr(line + 1, "0::");
	return line != NULL && strncmp(line + 3, cgroup->path, length) == 0 &&
	       (line[3 + length] == '/' || line[3 + length] == '\n');
}

/* ---- what is in it ---- */

/*
 * The next directory in ENTRIES but "." and "..", or NULL. The kernel's files are not
 * wanted.
 */
static const char *next_directory(struct proc_entries *entries)
{
	const char *name;
	uint8_t type;

	/* Ends with the directory. */
	while ((name = proc_next_name(entries, &type)) != NULL)
		if (type == DT_DIR && strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
			return name;
	return NULL;
}

/* NOLINTNEXTLINE(misc-no-recursion): bounded by DEPTH_MAX. */
static unsigned visit_below(int directory, int depth, void (*visit)(pid_t, void *),
			    void *argument)
{
	struct proc_numbers numbers = {
		.fd = openat(directory, "cgroup.procs", O_RDONLY | O_CLOEXEC)};
	struct proc_entries entries = {.fd = -1};
	const char *name;
	unsigned count = 0;
	pid_t pid;

	if (numbers.fd >= 0) {
		/* 0 is one that has no number here; its file's end gives 0 too. */
		while ((pid = proc_next_number(&numbers)) != 0) {
			visit(pid, argument);
			count++;
		}
		close(numbers.fd);
	}
	if (depth == DEPTH_MAX)
		return count;
	entries.fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	while (entries.fd >= 0 && (name = next_directory(&entries)) != NULL) {
		const int below =
			openat(directory, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (below < 0)
			continue;
		count += visit_below(below, depth + 1, visit, argument);
		close(below);
	}
	if (entries.fd >= 0)
		close(entries.fd);
	return count;
}

unsigned cgroup_visit(const struct cgroup *cgroup, void (*visit)(pid_t pid, void *),
		      void *argument)
{
	return visit_below(cgroup->own, 0, visit, argument);
}

bool cgroup_kill(const struct cgroup *cgroup)
{
	if (write_one(cgroup->kill, "1"))
		return true;
	const int freeze = openat(cgroup->own, "cgroup.freeze", O_WRONLY | O_CLOEXEC);
	/* If that fails too they are killed as they are. */
	write_one(freeze, "1");
	if (freeze >= 0)
		close(freeze);
	return false;
}

struct cgroup_usage cgroup_usage(const struct cgroup *cgroup)
{
	return (struct cgroup_usage){
		.memory_peak = read_number(cgroup->own, "memory.peak", ""),
		.pids_peak = read_number(cgroup->own, "pids.peak", ""),
		.cpu_usec = read_number(cgroup->own, "cpu.stat", "usage_usec "),
	};
}

/* ---- making and removing ---- */

/* The first cgroup below DIRECTORY into NAME. False if there is none. */
static bool first_below(int directory, char name[NAME_MAX + 1])
{
	struct proc_entries entries = {
		.fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
	const char *found = entries.fd < 0 ? NULL : next_directory(&entries);

	if (found != NULL)
		snprintf(name, NAME_MAX + 1, "%s", found);
	if (entries.fd >= 0)
		close(entries.fd);
	return found != NULL;
}

static bool step(int *at, const char *name)
{
	const int fd = openat(*at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return false;
	close(*at);
	*at = fd;
	return true;
}

/*
 * Removes what was made below *AT: down to a cgroup that has none below it, up, away with
 * it, and on from there. (Without recursion: the command nested them as deeply as it
 * liked.) What cannot be removed is noticed by who removes the top.
 */
static void remove_below(int *at)
{
	char name[NAME_MAX + 1];
	int depth = 0;

	/* Ends: nobody is in there to make more. The bound is for those outside. */
	for (int i = 0; i < STEPS_MAX; i++) {
		if (first_below(*at, name)) {
			/* The command may have locked it up; EPERM: it is another's, and
			 * may be open to us all the same. */
			if ((fchmodat(*at, name, S_IRWXU, 0) < 0 && errno != EPERM) ||
			    !step(at, name))
				return;
			depth++;
			continue;
		}
		/* The first one there is the one that we come from. */
		if (depth-- == 0 || !step(at, "..") || !first_below(*at, name) ||
		    unlinkat(*at, name, AT_REMOVEDIR) < 0)
			return;
	}
}

/* False and errno if something is in NAME. */
static bool remove_empty(int directory, const char *name)
{
	int at;

	if (unlinkat(directory, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return true;
	at = openat(directory, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (at < 0)
		return false;
	remove_below(&at);
	close(at);
	return unlinkat(directory, name, AT_REMOVEDIR) == 0;
}

bool cgroup_remove(struct cgroup *cgroup)
{
	if (!cgroup_is_populated(cgroup))
		return remove_empty(cgroup->place, cgroup->name);
	errno = EBUSY;
	return false;
}

/* PREFIX and two numbers: nobody else gives such names. */
static bool is_name_of_run(const char *name)
{
	const size_t prefix = strlen(PREFIX);

	if (strncmp(name, PREFIX, prefix) != 0)
		return false;
	name += prefix;
	const size_t first = strspn(name, "0123456789");
	if (first == 0 || name[first] != '-')
		return false;
	name += first + 1;
	return *name != '\0' && name[strspn(name, "0123456789")] == '\0';
}

/* Cgroups of runs whose processes were all killed: nobody holds their locks any more. */
static void sweep(int place)
{
	struct proc_entries entries = {
		.fd = openat(place, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
	const char *name;

	while (entries.fd >= 0 && (name = next_directory(&entries)) != NULL) {
		if (!is_name_of_run(name))
			continue;
		const int old = openat(place, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (old < 0)
			continue;
		if (flock(old, LOCK_EX | LOCK_NB) == 0 &&
		    read_number(old, "cgroup.events", "populated ") == 0)
			remove_empty(place, name);
		close(old);
	}
	if (entries.fd >= 0)
		close(entries.fd);
}

/* Makes the directory and takes its lock, before somebody else's sweep does. */
static bool make_own(struct cgroup *cgroup)
{
	/* Ends: after so many tries; each fails only if a sweep has come between. (In
	 * another PID namespace there may be one with our number, but not at our time.)
	 */
	for (int i = 0; i < TRIES; i++) {
		snprintf(cgroup->name, sizeof(cgroup->name), PREFIX "%d-%lld",
			 (int)getpid(), (long long)clock_now_ns());
		if (mkdirat(cgroup->place, cgroup->name, 0755) < 0) {
			if (errno == EEXIST)
				continue;
			return false;
		}
		cgroup->own = descriptor_above_2(openat(
			cgroup->place, cgroup->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
		if (cgroup->own >= 0 && flock(cgroup->own, LOCK_SH | LOCK_NB) == 0 &&
		    faccessat(cgroup->own, "cgroup.procs", F_OK, 0) == 0)
			return true;
		const int error = errno;
		unlinkat(cgroup->place, cgroup->name, AT_REMOVEDIR);
		if (cgroup->own >= 0)
			close(cgroup->own);
		if (error == EMFILE || error == ENFILE) {
			errno = error;
			return false;
		}
	}
	return false;
}

static bool explain(char *why, size_t size, const char *what, int error)
{
	snprintf(why, size, "%s%s%s", what, error != 0 ? ": " : "",
		 error != 0 ? strerror(error) : "");
	return false;
}

/* Finds the place; false with WHY if we may not make a cgroup there. */
static bool find_place(struct cgroup *cgroup, char *path, size_t path_size, bool strictly,
		       char *why, size_t size)
{
	if (!read_own_path(path, path_size))
		return explain(why, size,
			       "there is no cgroup v2 here, or its path is too long", 0);
	if (strncmp(path, "/..", 3) == 0 && (path[3] == '/' || path[3] == '\0'))
		return explain(why, size,
			       "the cgroup that we are in is outside of this cgroup "
			       "namespace",
			       0);
	cgroup->place = open_place(path);
	if (cgroup->place < 0)
		return explain(why, size, "cgroup v2 is not mounted where it can be seen",
			       0);
	strictly = strictly || access("/run/systemd/system", F_OK) == 0;
	if (strictly && !is_delegated(cgroup->place, path))
		return explain(why, size,
			       "this cgroup is not delegated to us (try systemd-run "
			       "--scope -p Delegate=yes)",
			       0);
	/* Moving a process from here to below asks for this right. */
	if (faccessat(cgroup->place, "cgroup.procs", W_OK, AT_EACCESS) < 0) {
		if (errno == EROFS)
			return explain(why, size, "cgroup v2 is mounted read-only", 0);
		return explain(why, size, "no right to this cgroup's processes", errno);
	}
	return true;
}

bool cgroup_make(struct cgroup *cgroup, bool strictly, char *why, size_t size)
{
	char path[CGROUP_PATH_SIZE - CGROUP_NAME_SIZE - 1], type[32];

	*cgroup = (struct cgroup){-1, -1, -1, -1, -1, "", ""};
	if (!find_place(cgroup, path, sizeof(path), strictly, why, size))
		return false;
	sweep(cgroup->place);
	if (!make_own(cgroup)) {
		const int error = errno;
		return error == EROFS
			       ? explain(why, size, "cgroup v2 is mounted read-only", 0)
			       : explain(why, size, "cannot make a cgroup", error);
	}
	snprintf(cgroup->path, sizeof(cgroup->path), "%s/%s",
		 strcmp(path, "/") == 0 ? "" : path, cgroup->name);
	proc_read_text(openat(cgroup->own, "cgroup.type", O_RDONLY | O_CLOEXEC), type,
		       sizeof(type));
	if (strncmp(type, "domain invalid", 14) == 0) {
		remove_empty(cgroup->place, cgroup->name);
		return explain(why, size, "this cgroup is threaded", 0);
	}
	cgroup->events = open_file(cgroup->own, "cgroup.events", O_RDONLY);
	cgroup->procs = open_file(cgroup->own, "cgroup.procs", O_WRONLY);
	cgroup->kill = open_file(cgroup->own, "cgroup.kill", O_WRONLY);
	if (cgroup->events >= 0 && cgroup->procs >= 0)
		return true;
	explain(why, size, "cannot open the files of a cgroup", errno);
	remove_empty(cgroup->place, cgroup->name);
	return false;
}

pid_t cgroup_fork_into(const struct cgroup *cgroup)
{
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP,
		.exit_signal = SIGCHLD,
		.cgroup = (uint64_t)cgroup->own,
	};

	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

void cgroup_keep(struct cgroup *cgroup, int keep[CGROUP_KEPT])
{
	for (int i = 0; i < CGROUP_KEPT; i++)
		keep[i] = -1;
	if (cgroup == NULL)
		return;
	keep[0] = cgroup->place;
	keep[1] = cgroup->own;
	keep[2] = cgroup->events;
	keep[3] = cgroup->kill;
	/* Whoever holds it could move processes. */
	if (cgroup->procs >= 0)
		close(cgroup->procs);
	cgroup->procs = -1;
}

int cgroup_join(const struct cgroup *cgroup)
{
	return write_one(cgroup->procs, "0") ? 0 : -1;
}
