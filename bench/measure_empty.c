/*
 * How long it takes to end a tree of sleeping processes: from SIGTERM to treewrap (which
 * stops the tree by SIGKILL at once) to its return, beside the kernel's own way: SIGKILL
 * to process 1 of a PID namespace, until unshare(1), which waits for it, returns.
 */
#include <errno.h>
#include <signal.h>
#include <sys/types.h>

#include "bench.h"
#include "subject.h"

enum { KERNEL, STATIC, DYNAMIC, CGROUP, WAYS };

static const struct subject ways[WAYS] = {
	{"kernel", "unshare", {"--pid", "--fork"}, 0},
	{"treewrap-static",
	 "./treewrap-static",
	 {"-k", "0", "--stop-on", "TERM", "--"},
	 0},
	{"treewrap", "./treewrap", {"-k", "0", "--stop-on", "TERM", "--"}, 0},
	{"treewrap-cgroup",
	 "./treewrap-static",
	 {"--contain=cgroup", "-k", "0", "--stop-on=TERM", "--"},
	 0},
};

/* wide or deep, how many processes, of how many threads */
struct shape {
	const char *name;
	int count;
	int threads;
};

/* Where no cgroup can be made, that row stays empty. */
static bool can(int way)
{
	static const char *const nothing[] = {"build/bench/nothing", NULL};
	struct words words = {.count = 0};
	struct child child;

	if (!subject_is_here(&ways[way]) || way == KERNEL)
		return subject_is_here(&ways[way]);
	words_subject(&words, &ways[way]);
	words_add(&words, nothing);
	child = child_start(&words);
	return child_wait(&child) == 0;
}

static double once(int way, const struct shape *shape)
{
	struct words words = {.count = 0};
	char count[16], threads[16];
	const char *const tree[] = {"build/bench/tree", shape->name, count, threads,
				    NULL};
	struct child child;
	double began;
	int status;

	snprintf(count, sizeof(count), "%d", shape->count);
	snprintf(threads, sizeof(threads), "%d", shape->threads);
	words_subject(&words, &ways[way]);
	words_add(&words, tree);
	child = child_start(&words);
	child_says(&child, (size_t)shape->count);
	if (way == KERNEL) {
		const pid_t first = child_of(child.pid);

		began = now();
		kill(first, SIGKILL);
	} else {
		began = now();
		kill(child.pid, SIGTERM);
	}
	status = child_wait(&child);
	if (way != KERNEL && status != 129)
		die_of(ECANCELED, "the end of a tree", ways[way].name);
	return now() - began;
}

static void compare(struct report *report, const char *what, const struct shape *shape,
		    const struct series *all)
{
	const struct target target = {.most = 1.25};
	struct series ratios;
	char row[96];

	for (int way = 0; way < WAYS; way++) {
		snprintf(row, sizeof(row), "%s, %s", what, ways[way].name);
		report_row(report, row, &all[way], "us", NULL);
		report_number(report, ways[way].name, shape->count, &all[way]);
	}
	for (int way = STATIC; way < WAYS; way++) {
		ratios = (struct series){NULL, 0};
		series_ratios(&ratios, &all[way], &all[KERNEL]);
		snprintf(row, sizeof(row), "%s, %s / kernel", what, ways[way].name);
		report_row(report, row, &ratios, "times", &target);
		series_empty(&ratios);
	}
}

/* Adds to PER_PROCESS the median for one process of the static build's. */
static void measure_shape(struct report *report, const struct shape *shape, int rounds,
			  struct series *per_process)
{
	struct series all[WAYS] = {{NULL, 0}};
	char what[64];

	for (int round = 0; round < rounds; round++) {
		for (int turn = 0; turn < WAYS; turn++) {
			const int way = (turn + round) % WAYS;

			if (can(way))
				series_add(&all[way], once(way, shape));
		}
	}
	if (shape->threads > 1)
		snprintf(what, sizeof(what), "%d %s of %d threads", shape->count,
			 shape->name, shape->threads);
	else
		snprintf(what, sizeof(what), "%d %s", shape->count, shape->name);
	compare(report, what, shape, all);
	series_add(per_process, series_at(&all[STATIC], 0.5) / shape->count);
	for (int way = 0; way < WAYS; way++)
		series_empty(&all[way]);
}

/* Linear growth: a process of the largest tree costs what one of the next smaller costs.
 */
static void growth(struct report *report, const char *name, const int *count,
		   struct series *per_process)
{
	const struct target target = {.most = 1.5};
	const size_t last = per_process->count - 1;
	struct series ratio = {NULL, 0};
	char what[96];

	series_add(&ratio, per_process->value[last] / per_process->value[last - 1]);
	snprintf(what, sizeof(what), "growth: one of %d %s / one of %d", count[3], name,
		 count[2]);
	report_row(report, what, &ratio, "times", &target);
	series_empty(&ratio);
	series_empty(per_process);
}

void measure_empty(struct report *report, const struct size *size)
{
	struct series per_process = {NULL, 0};

	report_section(report, "empty", "2. Time to end a tree of sleeping processes");
	report_set(report, "wide");
	for (int i = 0; i < 4; i++)
		measure_shape(report, &(struct shape){"wide", size->wide[i], 1},
			      size->wide_rounds[i], &per_process);
	growth(report, "wide", size->wide, &per_process);
	report_set(report, "deep");
	for (int i = 0; i < 4; i++)
		measure_shape(report, &(struct shape){"deep", size->deep[i], 1},
			      size->deep_rounds[i], &per_process);
	growth(report, "deep", size->deep, &per_process);
	report_set(report, "threaded");
	for (int i = 0; i < 2; i++)
		measure_shape(report,
			      &(struct shape){"wide", size->threaded[i], size->threads},
			      size->threaded_rounds, &per_process);
	series_empty(&per_process);
}
