/*
 * Fork bombs, held by a cgroup that lets so many processes be and no more: each death
 * frees a place that is taken at once. From SIGTERM to treewrap, which stops the tree by
 * SIGKILL at once, to its return: when the kernel says that nothing is left. With the
 * right to a real-time priority and without.
 */
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"
#include "cage.h"
#include "subject.h"

#define BOMBS 12     /* of one size: kind, containment, priority */
#define GROWN 100000 /* microseconds that a full cage is left alone */

struct bomb {
	const char *kind;
	const char *contain;
	int limit;
	bool priority;
};

/* Whether it has ended within so many seconds. */
static bool ends(const struct child *child, int seconds)
{
	struct pollfd poller = {(int)syscall(SYS_pidfd_open, child->pid, 0), POLLIN, 0};
	bool ended;

	if (poller.fd < 0)
		die("pidfd_open", "a child");
	ended = poll(&poller, 1, seconds * 1000) > 0;
	close(poller.fd);
	return ended;
}

/* If the measurer ends, the lifeline hangs up, and that ends the bomb too. */
static struct child let_off(const struct bomb *bomb, const struct cage *cage)
{
	const char *const join[] = {"sh", "-c", "echo $$ >\"$0\" && exec \"$@\"",
				    cage->procs, NULL};
	const char *const without[] = {"setpriv", "--bounding-set=-sys_nice",
				       "--inh-caps=-sys_nice", NULL};
	const char *const treewrap[] = {"./treewrap-static",
					"-k",
					"0",
					"--stop-on",
					"TERM",
					"--watch-fd",
					"3",
					"--verify-for",
					"300",
					"--contain",
					bomb->contain,
					"tests/bin/bomb",
					"bench",
					bomb->kind,
					NULL};
	struct words words = {.count = 0};

	words_add(&words, join);
	if (!bomb->priority)
		words_add(&words, without);
	words_add(&words, treewrap);
	return child_start(&words);
}

/* Adds the milliseconds that it takes to TIMES, or says why that cannot be. */
static const char *once(const struct bomb *bomb, const struct cage *cage, int limit,
			struct series *times)
{
	const struct child child = let_off(bomb, cage);
	const char *failed = NULL;
	double began, ended;

	if (!cage_holds(cage, bomb->limit * 9 / 10, bomb->limit)) {
		kill(child.pid, SIGKILL);
		child_wait(&child);
		return "did not grow";
	}
	pause_for(GROWN);
	began = now();
	kill(child.pid, SIGTERM);
	if (!ends(&child, limit)) {
		failed = "not in time";
		kill(child.pid, SIGKILL);
	}
	ended = now();
	if (child_wait(&child) != 129 && failed == NULL)
		failed = "failed";
	if (failed == NULL)
		series_add(times, (ended - began) / 1000);
	return failed;
}

static void row(struct report *report, const struct bomb *bomb,
		const struct series *times, const char *failed)
{
	char what[96];

	snprintf(what, sizeof(what), "%s, %d, %s, %s", bomb->kind, bomb->limit,
		 bomb->contain, bomb->priority ? "priority" : "none");
	if (times->count == 0 || failed != NULL)
		report_missing(report, what, failed == NULL ? "no pids cgroup" : failed);
	if (times->count > 0)
		report_row(report, what, times, "ms", NULL);
	report_number(report, what, 0, times);
}

void measure_bombs(struct report *report, const struct size *size, const char *part)
{
	static const char *const kinds[] = {"setsid", "group"};
	static const char *const contains[] = {"tree", "cgroup", "pidns"};
	const int limit = size->bomb[strcmp(part, "bombs") != 0];
	struct series times[BOMBS] = {{NULL, 0}};
	const char *failed[BOMBS] = {NULL};
	struct bomb bomb[BOMBS];
	struct cage cage;

	report_section(report, part,
		       limit == size->bomb[0] ? "7. Time to end a fork bomb"
					      : "7. ... and a large one");
	for (int i = 0; i < BOMBS; i++)
		bomb[i] = (struct bomb){kinds[i / 6], contains[i / 2 % 3], limit,
					i % 2 == 0};
	for (int round = 0; round < size->bomb_rounds; round++) {
		for (int i = 0; i < BOMBS; i++) {
			/* What was not ended once would take the whole limit again. */
			if (failed[i] != NULL || !cage_make(&cage, limit))
				continue;
			failed[i] = once(&bomb[i], &cage, size->bomb_limit, &times[i]);
			cage_remove(&cage);
		}
	}
	for (int i = 0; i < BOMBS; i++) {
		row(report, &bomb[i], &times[i], failed[i]);
		series_empty(&times[i]);
	}
}
