/*
 * From the start of a subject to its end, around a command that does nothing. The order
 * of the subjects turns by one in each round, so that none is always behind the same
 * neighbour.
 */
#include <errno.h>
#include <stdio.h>

#include "bench.h"
#include "subject.h"

static double once(const struct subject *subject, double *faults)
{
	const char *const nothing[] = {"build/bench/nothing", NULL};
	struct words words = {.count = 0};
	struct child child;
	double began, ended;

	if (subject->file != NULL)
		words_subject(&words, subject);
	words_add(&words, nothing);
	began = now();
	child = child_start(&words);
	if (child_wait_counting(&child, faults) != 0)
		die_of(ECANCELED, "a command that does nothing", subject->name);
	ended = now();
	return ended - began;
}

void measure_start(struct report *report, const struct size *size)
{
	struct series all[SUBJECTS] = {{NULL, 0}}, all_faults[SUBJECTS] = {{NULL, 0}};
	double faults;
	char row[64];
	int here[SUBJECTS];

	report_section(report, "start", "1. Start to end of a command that does nothing");
	for (int i = 0; i < SUBJECTS; i++)
		here[i] = subject_is_here(&subjects[i]);
	for (int round = 0; round < size->start_rounds; round++) {
		for (int turn = 0; turn < SUBJECTS; turn++) {
			const int i = (turn + round) % SUBJECTS;

			if (!here[i])
				continue;
			series_add(&all[i], once(&subjects[i], &faults));
			series_add(&all_faults[i], faults);
		}
	}
	for (int i = 0; i < SUBJECTS; i++) {
		report_row(report, subjects[i].name, &all[i], "us", NULL);
		report_number(report, subjects[i].name, i, &all[i]);
	}
	report_ratio(report, all, TREEWRAP_STATIC, TINI_STATIC, 0.8);
	report_ratio(report, all, TREEWRAP_STATIC, BARE, 4);
	report_ratio(report, all, TREEWRAP, TINI, 1);
	for (int i = 0; i < SUBJECTS; i++) {
		snprintf(row, sizeof(row), "page faults: %s", subjects[i].name);
		report_row(report, row, &all_faults[i], "", NULL);
		series_empty(&all[i]);
		series_empty(&all_faults[i]);
	}
}
