#ifndef BENCH_H
#define BENCH_H

#include "report.h"

/* How much is measured. The sections and their rows are the same for all sizes. */
struct size {
	const char *name;
	int start_rounds;
	int wide[4], wide_rounds[4];
	int deep[4], deep_rounds[4];
	int threaded[2], threads, threaded_rounds;
	int orphans, orphan_rounds;
	int signals;
	int memory_rounds, memory_orphans;
	int bomb[2], bomb_rounds, bomb_limit; /* the limit: seconds */
};

/* The parts. Each writes its own section. Bombs are two: PART is "bombs" or
 * "large-bombs". */
void measure_start(struct report *report, const struct size *size);
void measure_empty(struct report *report, const struct size *size);
void measure_orphans(struct report *report, const struct size *size);
void measure_signal(struct report *report, const struct size *size);
void measure_memory(struct report *report, const struct size *size);
void measure_idle(struct report *report, int seconds);
void measure_bombs(struct report *report, const struct size *size, const char *part);

#endif
