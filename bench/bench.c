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
	{"full",
	 300,
	 {10, 100, 1000, 10000},
	 {20, 20, 10, 3},
	 {10, 100, 1000, 3000},
	 {20, 20, 3, 3},
	 {10, 100},
	 100,
	 5,
	 10000,
	 5,
	 1000,
	 2,
	 100000,
	 {500, 2000},
	 3,
	 20},
	{"quick",
	 50,
	 {10, 100, 1000, 10000},
	 {5, 5, 3, 1},
	 {10, 100, 1000, 3000},
	 {5, 5, 1, 1},
	 {10, 100},
	 100,
	 1,
	 2000,
	 2,
	 200,
	 1,
	 5000,
	 {500, 2000},
	 1,
	 5},
	{"tiny",
	 3,
	 {2, 5, 10, 20},
	 {2, 2, 2, 2},
	 {2, 5, 10, 20},
	 {2, 2, 2, 2},
	 {2, 4},
	 10,
	 2,
	 400,
	 2,
	 5,
	 1,
	 400,
	 {30, 60},
	 1,
	 20},
};

static const char *const parts[] = {"head",   "start", "empty", "orphans", "signal",
				    "memory", "idle",  "bombs", NULL};

static void measure(struct report *report, const struct size *size, const char *part,
		    int seconds)
{
	if (strcmp(part, "head") == 0)
		report_open(report, size->name);
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
	else if (strcmp(part, "bombs") == 0)
		measure_bombs(report, size);
	else
		die("no such part", part);
}

int main(int argc, char **argv)
{
	struct report report = {NULL, NULL, NULL};
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
	for (const char *const *part = argc > 4 ? (const char *const *)&argv[4] : parts;
	     *part != NULL; part++)
		measure(&report, size, *part, (int)strtol(argv[3], NULL, 10));
	if (report.numbers != NULL)
		fclose(report.numbers);
	if (report.table != NULL)
		fclose(report.table);
	return 0;
}
