/*
 * bench FOLDER SIZE SECONDS [PART...]: measures treewrap beside its peers.
 *
 * Runs in the repository's folder. SIZE is full, quick or tiny; SECONDS is for how long
 * the wake-ups are counted. Without PARTs all are measured; with them, "head" begins a
 * new table and the others add to it. What is not there is named, and no failure.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "subject.h"

#define LIMIT 900 /* seconds; what is left then ends by its own clock */

static const struct size sizes[] = {
	{
		.name = "full",
		.start_rounds = 300,
		.wide = {10, 100, 1000, 10000},
		.wide_rounds = {20, 20, 10, 3},
		.deep = {10, 100, 1000, 3000},
		.deep_rounds = {20, 20, 3, 3},
		.threaded = {10, 100},
		.threads = 100,
		.threaded_rounds = 5,
		.orphans = 10000,
		.orphan_rounds = 5,
		.signals = 1000,
		.memory_rounds = 1,
		.memory_orphans = 100000,
		.bomb = {500, 2000},
		.bomb_rounds = 2,
		.bomb_limit = 20,
	},
	{
		.name = "quick",
		.start_rounds = 50,
		.wide = {10, 100, 1000, 10000},
		.wide_rounds = {5, 5, 3, 1},
		.deep = {10, 100, 1000, 3000},
		.deep_rounds = {5, 5, 1, 1},
		.threaded = {10, 100},
		.threads = 100,
		.threaded_rounds = 1,
		.orphans = 2000,
		.orphan_rounds = 2,
		.signals = 200,
		.memory_rounds = 1,
		.memory_orphans = 5000,
		.bomb = {100, 300},
		.bomb_rounds = 1,
		.bomb_limit = 5,
	},
	{
		.name = "tiny",
		.start_rounds = 3,
		.wide = {2, 5, 10, 20},
		.wide_rounds = {2, 2, 2, 2},
		.deep = {2, 5, 10, 20},
		.deep_rounds = {2, 2, 2, 2},
		.threaded = {2, 4},
		.threads = 10,
		.threaded_rounds = 2,
		.orphans = 400,
		.orphan_rounds = 2,
		.signals = 5,
		.memory_rounds = 1,
		.memory_orphans = 400,
		.bomb = {30, 60},
		.bomb_rounds = 1,
		.bomb_limit = 5,
	},
};

static const char *const parts[] = {"head",   "start", "empty", "orphans",     "signal",
				    "memory", "idle",  "bombs", "large-bombs", NULL};

static void measure(struct report *report, const struct size *size, const char *part,
		    int seconds)
{
	if (strcmp(part, "head") == 0)
		report_open(report);
	else if (strcmp(part, "start") == 0)
		measure_start(report, size);
	else if (strcmp(part, "empty") == 0)
		measure_empty(report, size);
	else if (strcmp(part, "orphans") == 0)
		measure_orphans(report, size);
	else if (strcmp(part, "signal") == 0)
		measure_signal(report, size);
	else if (strcmp(part, "memory") == 0)
		measure_memory(report, size);
	else if (strcmp(part, "idle") == 0)
		measure_idle(report, seconds);
	else if (strcmp(part, "bombs") == 0 || strcmp(part, "large-bombs") == 0)
		measure_bombs(report, size, part);
	else
		die_of(EINVAL, "no such part", part);
}

int main(int argc, char **argv)
{
	struct report report = {NULL, NULL, NULL, NULL};
	const struct size *size = NULL;
	char errors[4096];

	for (size_t i = 0; argc > 3 && i < sizeof(sizes) / sizeof(*sizes); i++)
		if (strcmp(argv[2], sizes[i].name) == 0)
			size = &sizes[i];
	if (size == NULL) {
		fprintf(stderr,
			"usage: bench FOLDER full|quick|tiny SECONDS [PART...]\n");
		return 1;
	}
	alarm(LIMIT);
	if (!take_priority())
		fprintf(stderr,
			"bench: no real-time priority: beside fork bombs, it measures "
			"its own waiting too\n");
	snprintf(errors, sizeof(errors), "%s/errors", argv[1]);
	prepare(errors);
	report.folder = argv[1];
	report.size = size->name;
	for (const char *const *part = argc > 4 ? (const char *const *)&argv[4] : parts;
	     *part != NULL; part++)
		measure(&report, size, *part, (int)strtol(argv[3], NULL, 10));
	if (report.numbers != NULL)
		fclose(report.numbers);
	if (report.table != NULL)
		fclose(report.table);
	return 0;
}
