/*
 * cage: a cgroup with a limit, of version 1 or 2. What cannot be removed dies with the
 * bomb's own lifetime, and is named.
 */
#include "cage.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "subject.h"

#define PATIENCE 30000 /* in milliseconds */

static bool put(const char *folder, const char *name, const char *text)
{
	char path[256];
	bool done;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	done = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	close(fd);
	return done;
}

bool cage_make(struct cage *cage, int limit)
{
	const char *root = "/sys/fs/cgroup/pids";
	char number[16];

	if (access("/sys/fs/cgroup/pids/cgroup.procs", W_OK) < 0) {
		root = "/sys/fs/cgroup";
		if (!put(root, "cgroup.subtree_control", "+pids"))
			return false;
	}
	snprintf(cage->folder, sizeof(cage->folder), "%s/treewrap-bench-%d", root,
		 (int)getpid());
	snprintf(cage->procs, sizeof(cage->procs), "%s/cgroup.procs", cage->folder);
	snprintf(number, sizeof(number), "%d", limit);
	if (mkdir(cage->folder, 0755) < 0)
		return false;
	if (put(cage->folder, "pids.max", number))
		return true;
	rmdir(cage->folder);
	return false;
}

static int count(const struct cage *cage)
{
	char path[256], text[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "%s/pids.current", cage->folder);
	file = fopen(path, "re");
	if (file == NULL || fgets(text, sizeof(text), file) == NULL)
		die("read", path);
	fclose(file);
	return (int)strtol(text, NULL, 10);
}

bool cage_holds(const struct cage *cage, int least, int most)
{
	for (int tries = 0; tries < PATIENCE; tries++) {
		const int there = count(cage);

		if (there >= least && there <= most)
			return true;
		pause_for(1000);
	}
	return false;
}

static void kill_all(const struct cage *cage)
{
	char line[32];
	FILE *const file = fopen(cage->procs, "re");

	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		if (strtol(line, NULL, 10) > 0)
			kill((pid_t)strtol(line, NULL, 10), SIGKILL);
	if (file != NULL)
		fclose(file);
}

void cage_remove(const struct cage *cage)
{
	for (int tries = 0; tries < PATIENCE; tries++) {
		if (rmdir(cage->folder) == 0)
			return;
		kill_all(cage);
		pause_for(1000);
	}
	die("remove", cage->folder);
}
