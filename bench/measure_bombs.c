/*
 * Fork bombs, held by a cgroup that lets so many processes be and no more: each death
 * frees a place that is taken at once. From SIGTERM to treewrap, which stops the tree by
 * SIGKILL at once, to its return: when the kernel says that nothing is left. With the
 * right to a real-time priority and without.
 */
#include <signal.h>

#include "bench.h"
#include "cage.h"
#include "subject.h"

#define GROWN 100000 /* microseconds that a full cage is left alone */

struct bomb {
	int limit;
	const char *kind;
	const char *contain;
	bool priority;
};

/* Microseconds, or less than 0: it was not ended within the limit. */
static double once(const struct bomb *bomb, const struct cage *cage, const char *limit)
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
					"--verify-for",
					limit,
					"--contain",
					bomb->contain,
					"tests/bin/bomb",
					"bench",
					bomb->kind,
					NULL};
	struct words words = {.count = 0};
	struct child child;
	double began;
	int status;

	words_add(&words, join);
	if (!bomb->priority)
		words_add(&words, without);
	words_add(&words, treewrap);
	child = child_start(&words);
	if (!cage_holds(cage, bomb->limit * 9 / 10, bomb->limit)) {
		kill(child.pid, SIGKILL);
		child_wait(&child);
		return -1;
	}
	pause_for(GROWN);
	began = now();
	kill(child.pid, SIGTERM);
	status = child_wait(&child);
	return status == 129 ? now() - began : -1;
}

/* A row of its own for what was never ended: a median would hide it. */
static void measure_bomb(struct report *report, const struct bomb *bomb, int rounds,
			 int limit)
{
	struct series times = {NULL, 0};
	char what[96], why[48], seconds[16];
	int failed = 0;
	struct cage cage;
	double took;

	snprintf(seconds, sizeof(seconds), "%d", limit);
	snprintf(what, sizeof(what), "%s, %d, %s, %s", bomb->kind, bomb->limit,
		 bomb->contain, bomb->priority ? "priority" : "none");
	for (int round = 0; round < rounds; round++) {
		if (!cage_make(&cage, bomb->limit)) {
			report_missing(report, what, "no pids cgroup");
			break;
		}
		took = once(bomb, &cage, seconds);
		cage_remove(&cage);
		if (took < 0)
			failed++;
		else
			series_add(&times, took / 1000);
	}
	snprintf(why, sizeof(why), "%d not in %d s", failed, limit);
	if (times.count > 0)
		report_row(report, what, &times, "ms", NULL);
	if (failed > 0)
		report_missing(report, what, why);
	report_number(report, what, 0, &times);
	series_empty(&times);
}

void measure_bombs(struct report *report, const struct size *size)
{
	static const char *const kinds[] = {"setsid", "group"};
	static const char *const contains[] = {"tree", "cgroup", "pidns"};

	report_section(report, "bombs", "7. Time to end a fork bomb");
	for (int i = 0; i < 2; i++)
		for (int kind = 0; kind < 2; kind++)
			for (int contain = 0; contain < 3; contain++)
				for (int priority = 1; priority >= 0; priority--)
					measure_bomb(report,
						     &(struct bomb){size->bomb[i],
								    kinds[kind],
								    contains[contain],
								    priority == 1},
						     size->bomb_rounds, size->bomb_limit);
}
