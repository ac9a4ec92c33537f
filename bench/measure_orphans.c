/*
 * Orphans: how many a second are made, adopted and reaped, and how many zombies stand at
 * once meanwhile, sampled every few milliseconds. As process 1 of a PID namespace, and as
 * a subreaper. Most of the time goes into making orphans: the same for all.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"
#include "subject.h"

#define SAMPLE_MS 4

static bool is_zombie(long pid)
{
	char path[64], line[512];
	const char *name;

	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	read_beginning(path, line, sizeof(line));
	name = strrchr(line, ')');
	return name != NULL && name[1] == ' ' && name[2] == 'Z';
}

static int zombies_of(pid_t pid)
{
	char path[64], list[16384], *at = list, *next;
	int zombies = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	read_beginning(path, list, sizeof(list));
	for (long child = strtol(at, &next, 10); next != at;
	     child = strtol(at, &next, 10)) {
		zombies += is_zombie(child);
		at = next;
	}
	return zombies;
}

/* Who adopts: of treewrap, where it is not process 1, its second process. */
static pid_t adopter(const struct subject *subject, bool as_init, pid_t pid)
{
	if (as_init || subject == &subjects[TREEWRAP] ||
	    subject == &subjects[TREEWRAP_STATIC])
		return child_of(pid);
	return pid;
}

static void once(const struct subject *subject, bool as_init, int count,
		 struct series *rates, struct series *zombies)
{
	const char *const init[] = {"unshare", "--pid", "--fork", "--mount-proc", NULL};
	char number[16];
	const char *const orphans[] = {"build/bench/orphans", number, NULL};
	struct words words = {.count = 0};
	int most = 0;
	struct pollfd end;
	struct child child;
	double began;
	pid_t reaper;

	snprintf(number, sizeof(number), "%d", count);
	if (as_init)
		words_add(&words, init);
	words_subject(&words, subject);
	words_add(&words, orphans);
	began = now();
	child = child_start(&words);
	end = (struct pollfd){(int)syscall(SYS_pidfd_open, child.pid, 0), POLLIN, 0};
	reaper = adopter(subject, as_init, child.pid);
	while (poll(&end, 1, SAMPLE_MS) == 0) {
		const int standing = zombies_of(reaper);

		most = standing > most ? standing : most;
	}
	close(end.fd);
	if (child_wait(&child) != 0)
		die_of(ECANCELED, "orphans", subject->name);
	series_add(rates, count / (now() - began) * 1e6);
	series_add(zombies, most);
}

static void ratios(struct report *report, const char *as, const struct series *rates,
		   const struct series *zombies, int above, int below)
{
	const struct target most = {.most = 1}, least = {.least = 1};
	struct series rate = {NULL, 0}, standing = {NULL, 0};
	char what[96];

	series_ratios(&rate, &rates[above], &rates[below]);
	snprintf(what, sizeof(what), "rate, %s: %s / %s", as, subjects[above].name,
		 subjects[below].name);
	report_row(report, what, &rate, "times", &least);
	series_ratios(&standing, &zombies[above], &zombies[below]);
	snprintf(what, sizeof(what), "zombies, %s: %s / %s", as, subjects[above].name,
		 subjects[below].name);
	report_row(report, what, &standing, "times", &most);
	series_empty(&rate);
	series_empty(&standing);
}

static void rows(struct report *report, const char *as, unsigned need,
		 const struct series *rates, const struct series *zombies)
{
	char what[96];

	for (int i = 0; i < SUBJECTS; i++) {
		if ((subjects[i].can & need) == 0)
			continue;
		snprintf(what, sizeof(what), "rate, %s: %s", as, subjects[i].name);
		report_row(report, what, &rates[i], "1/s", NULL);
		report_number(report, subjects[i].name, i, &rates[i]);
		snprintf(what, sizeof(what), "zombies, %s: %s", as, subjects[i].name);
		report_row(report, what, &zombies[i], "at once", NULL);
	}
	for (int i = TINI_STATIC; i < SUBJECTS; i++)
		if ((subjects[i].can & need) != 0)
			ratios(report, as, rates, zombies, TREEWRAP_STATIC, i);
}

static void measure(struct report *report, const struct size *size, bool as_init)
{
	struct series rates[SUBJECTS] = {{NULL, 0}}, zombies[SUBJECTS] = {{NULL, 0}};
	const char *const as = as_init ? "process 1" : "subreaper";
	const unsigned need = as_init ? INIT : ADOPTS;

	report_set(report, as);
	for (int round = 0; round < size->orphan_rounds; round++) {
		for (int turn = 0; turn < SUBJECTS; turn++) {
			const int i = (turn + round) % SUBJECTS;

			if ((subjects[i].can & need) != 0 &&
			    subject_is_here(&subjects[i]))
				once(&subjects[i], as_init, size->orphans, &rates[i],
				     &zombies[i]);
		}
	}
	rows(report, as, need, rates, zombies);
	for (int i = 0; i < SUBJECTS; i++) {
		series_empty(&rates[i]);
		series_empty(&zombies[i]);
	}
}

void measure_orphans(struct report *report, const struct size *size)
{
	report_section(report, "orphans", "3. Orphans reaped, and zombies standing");
	measure(report, size, true);
	measure(report, size, false);
}
