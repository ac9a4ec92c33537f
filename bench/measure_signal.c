/*
 * From a signal's being sent to the moment when the command has it. All subjects run at
 * once and sleep, and get their signals in turn.
 */
#include <signal.h>
#include <unistd.h>

#include "bench.h"
#include "subject.h"

#define BREATH 300 /* microseconds in which all fall asleep again */

static struct child begin(const struct subject *subject)
{
	const char *const echo[] = {"build/bench/echo", NULL};
	struct words words = {.count = 0};
	struct child child;

	if (subject->file != NULL)
		words_subject(&words, subject);
	words_add(&words, echo);
	child = child_start(&words);
	child_says(&child, 1);
	return child;
}

static double once(const struct child *child)
{
	double sent, had;

	pause_for(BREATH);
	sent = now();
	if (kill(child->pid, SIGUSR1) < 0 ||
	    read(child->output, &had, sizeof(had)) != sizeof(had))
		die("a signal", "no answer");
	return had - sent;
}

void measure_signal(struct report *report, const struct size *size)
{
	struct series all[SUBJECTS] = {{NULL, 0}};
	struct child child[SUBJECTS];
	bool here[SUBJECTS];

	report_section(report, "signal", "4. From a signal to the command's having it");
	for (int i = 0; i < SUBJECTS; i++) {
		here[i] = (subjects[i].can & FORWARDS) != 0 &&
			  subject_is_here(&subjects[i]);
		if (here[i])
			child[i] = begin(&subjects[i]);
	}
	for (int round = 0; round < size->signals; round++) {
		for (int turn = 0; turn < SUBJECTS; turn++) {
			const int i = (turn + round) % SUBJECTS;

			if (here[i])
				series_add(&all[i], once(&child[i]));
		}
	}
	for (int i = 0; i < SUBJECTS; i++) {
		if (here[i]) {
			kill(child[i].pid, SIGTERM);
			child_wait(&child[i]);
		}
		if ((subjects[i].can & FORWARDS) != 0)
			report_row(report, subjects[i].name, &all[i], "us", NULL);
		report_number(report, subjects[i].name, i, &all[i]);
	}
	report_ratio(report, all, TREEWRAP_STATIC, TINI_STATIC, 2);
	report_ratio(report, all, TREEWRAP, TINI, 2);
	for (int i = 0; i < SUBJECTS; i++)
		series_empty(&all[i]);
}
