/*
 * How often a subject's own processes wake up while nothing happens: the context switches
 * that the kernel counted. treewrap has a timeout and all its watches to look after. All
 * subjects idle at once.
 */
#include <signal.h>
#include <unistd.h>

#include "bench.h"
#include "chain.h"
#include "subject.h"

#define SETTLE 500000 /* microseconds until the start of all is over */

static const char *const switches[] = {
	"voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:", NULL};

static struct child begin(const struct subject *subject)
{
	char self[16];
	const char *const file[] = {subject->file, NULL};
	const char *const watches[] = {
		"-t", "1000",	   "--watch-stdin", "--watch-parent", "--watch-fd",
		"3",  "--stop-on", "USR2",	    "--watch-pid",    self,
		NULL};
	const char *const echo[] = {"build/bench/echo", NULL};
	struct words words = {.count = 0};
	struct child child;

	snprintf(self, sizeof(self), "%d", (int)getpid());
	if (subject == &subjects[TREEWRAP] || subject == &subjects[TREEWRAP_STATIC]) {
		words_add(&words, file);
		words_add(&words, watches);
	} else {
		words_subject(&words, subject);
	}
	words_add(&words, echo);
	child = child_start(&words);
	child_says(&child, 1);
	return child;
}

void measure_idle(struct report *report, int seconds)
{
	const struct target none = {.most = 0};
	struct child child[SUBJECTS];
	struct chain chain[SUBJECTS];
	struct series woken[SUBJECTS] = {{NULL, 0}};
	double before[SUBJECTS];
	bool here[SUBJECTS];
	char title[64];

	snprintf(title, sizeof(title), "6. Wake-ups in %d idle seconds", seconds);
	report_section(report, "idle", title);
	for (int i = BARE + 1; i < SUBJECTS; i++) {
		here[i] = subject_is_here(&subjects[i]);
		if (here[i])
			child[i] = begin(&subjects[i]);
	}
	pause_for(SETTLE);
	for (int i = BARE + 1; i < SUBJECTS; i++) {
		if (here[i]) {
			chain[i] = chain_from(child[i].pid);
			before[i] = chain_sum(&chain[i], "status", switches);
		}
	}
	pause_for(seconds * 1e6);
	for (int i = BARE + 1; i < SUBJECTS; i++) {
		if (here[i]) {
			series_add(&woken[i],
				   chain_sum(&chain[i], "status", switches) - before[i]);
			kill(chain[i].pid[chain[i].count], SIGKILL);
			child_wait(&child[i]);
		}
		report_row(report, subjects[i].name, &woken[i], "wake-ups",
			   i == TREEWRAP || i == TREEWRAP_STATIC ? &none : NULL);
		report_number(report, subjects[i].name, i, &woken[i]);
		series_empty(&woken[i]);
	}
}
