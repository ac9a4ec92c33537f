/*
 * subject: what is measured, and how it is started. Times are taken by whoever calls;
 * nothing here runs between a start and an end but the start itself.
 */
#include "subject.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

const struct subject subjects[SUBJECTS] = {
	{"bare", NULL, {NULL}, FORWARDS},
	{"treewrap-static", "./treewrap-static", {"--"}, ADOPTS | INIT | FORWARDS},
	{"treewrap", "./treewrap", {"--"}, ADOPTS | INIT | FORWARDS},
	{"tini-static", "tini-static", {"-s", "--"}, ADOPTS | INIT | FORWARDS},
	{"tini", "tini", {"-s", "--"}, ADOPTS | INIT | FORWARDS},
	{"dumb-init", "dumb-init", {"--"}, INIT | FORWARDS},
	{"catatonit", "catatonit", {"--"}, ADOPTS | INIT | FORWARDS},
	{"timeout", "timeout", {"1000"}, 0},
	{"bwrap", "bwrap", {"--unshare-pid", "--dev-bind", "/", "/"}, 0},
	{"unshare", "unshare", {"--kill-child", "--fork", "--pid"}, 0},
};

void die_of(int error, const char *what, const char *on)
{
	fprintf(stderr, "bench: %s: %s: %s\n", what, on, strerror(error));
	exit(1);
}

void die(const char *what, const char *on)
{
	die_of(errno, what, on);
}

bool subject_is_here(const struct subject *subject)
{
	const char *const path = getenv("PATH");
	char all[4096], file[4200], *rest = NULL;

	if (subject->file == NULL || strchr(subject->file, '/') != NULL)
		return subject->file == NULL || access(subject->file, X_OK) == 0;
	snprintf(all, sizeof(all), "%s", path == NULL ? "/usr/bin:/bin" : path);
	for (char *at = strtok_r(all, ":", &rest); at; at = strtok_r(NULL, ":", &rest)) {
		snprintf(file, sizeof(file), "%s/%s", at, subject->file);
		if (access(file, X_OK) == 0)
			return true;
	}
	return false;
}

void words_add(struct words *words, const char *const *more)
{
	const size_t room = sizeof(words->word) / sizeof(*words->word);

	for (; *more != NULL; more++) {
		if (words->count + 1 >= room)
			die_of(E2BIG, "words", *more);
		words->word[words->count++] = *more;
	}
	words->word[words->count] = NULL;
}

void words_subject(struct words *words, const struct subject *subject)
{
	const char *const file[] = {subject->file, NULL};

	words_add(words, file);
	words_add(words, subject->option);
}

void prepare(const char *errors)
{
	int end[2], file;

	if (pipe2(end, O_CLOEXEC) < 0 || fcntl(end[1], F_DUPFD_CLOEXEC, ERRORS + 1) < 0)
		die("pipe", "lifeline");
	file = open(errors, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (file < 0)
		die("open", errors);
	file = fcntl(file, F_DUPFD_CLOEXEC, ERRORS + 1);
	if (file < 0 || dup2(end[0], LIFELINE) < 0 || fcntl(LIFELINE, F_SETFD, 0) < 0 ||
	    dup3(file, ERRORS, O_CLOEXEC) < 0)
		die("prepare", errors);
}

struct child child_start(const struct words *words)
{
	char *const *const argv = (char *const *)words->word;
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	struct child child;
	int end[2];

	if (pipe2(end, O_CLOEXEC) < 0)
		die("pipe", argv[0]);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, LIFELINE, 0);
	posix_spawn_file_actions_adddup2(&actions, end[1], 1);
	posix_spawn_file_actions_adddup2(&actions, ERRORS, 2);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
	errno = posix_spawnp(&child.pid, argv[0], &actions, &attributes, argv, environ);
	if (errno != 0)
		die("start", argv[0]);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	close(end[1]);
	child.output = end[0];
	return child;
}

void child_says(const struct child *child, size_t count)
{
	char said[4096];

	while (count > 0) {
		const size_t most = count < sizeof(said) ? count : sizeof(said);
		const ssize_t got = read(child->output, said, most);

		if (got <= 0)
			die_of(got < 0 ? errno : EPIPE, "read", "a command's output");
		count -= (size_t)got;
	}
}

int child_wait(const struct child *child)
{
	double faults;

	return child_wait_counting(child, &faults);
}

int child_wait_counting(const struct child *child, double *faults)
{
	struct rusage usage;
	int status;

	while (wait4(child->pid, &status, 0, &usage) < 0)
		if (errno != EINTR)
			die("wait", "a child");
	close(child->output);
	*faults = (double)(usage.ru_minflt + usage.ru_majflt);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool read_beginning(const char *path, char *text, size_t room)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	const ssize_t got = fd < 0 ? -1 : read(fd, text, room - 1);

	if (fd >= 0)
		close(fd);
	text[got < 0 ? 0 : got] = '\0';
	return got > 0;
}

pid_t child_of(pid_t pid)
{
	char path[64], text[32];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	for (int tries = 0; tries < 5000; tries++) {
		if (read_beginning(path, text, sizeof(text)))
			return (pid_t)strtol(text, NULL, 10);
		pause_for(1000);
	}
	die("no child", path);
}

double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

void pause_for(double microseconds)
{
	const struct timespec time = {(time_t)(microseconds / 1e6),
				      (long)(microseconds * 1e3) % 1000000000};

	nanosleep(&time, NULL);
}

bool take_priority(void)
{
	const struct sched_param two = {.sched_priority = 2};

	return sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &two) == 0;
}
