/*
 * The memory of a subject's own processes together: what is theirs alone, what they share
 * with others, and their part of all; while idle, and after orphans were reaped. Growth
 * is what the second half of the orphans added: the first half warms up.
 */
#include <signal.h>

#include "bench.h"
#include "chain.h"
#include "subject.h"

static const char *const private[] = {"Private_Clean:", "Private_Dirty:", NULL};
static const char *const shared[] = {"Shared_Clean:", "Shared_Dirty:", NULL};
static const char *const part[] = {"Pss:", NULL};

/* What is looked at, all in kB. */
enum { PRIVATE, SHARED, PART, AFTER, GROWTH, FIGURES };

static const char *const figure[FIGURES] = {"private", "shared", "Pss",
					    "private, after orphans", "growth"};

static double look(const struct chain *chain, const char *const *words)
{
	return chain_sum(chain, "smaps_rollup", words);
}

/* One that cannot be a subreaper is made process 1; unshare(1) itself is not counted. */
static void once(const struct subject *subject, int count, struct series *all)
{
	const char *const init[] = {"unshare", "--pid", "--fork", NULL};
	const bool as_init = (subject->can & ADOPTS) == 0;
	char number[16];
	const char *const orphans[] = {"build/bench/orphans", number, "stay", NULL};
	struct words words = {.count = 0};
	struct child child;
	struct chain chain;
	double half;

	snprintf(number, sizeof(number), "%d", count / 2);
	if (as_init)
		words_add(&words, init);
	words_subject(&words, subject);
	words_add(&words, orphans);
	child = child_start(&words);
	child_says(&child, 1);
	chain = chain_from(as_init ? child_of(child.pid) : child.pid);
	series_add(&all[PRIVATE], look(&chain, private));
	series_add(&all[SHARED], look(&chain, shared));
	series_add(&all[PART], look(&chain, part));
	kill(chain.pid[chain.count], SIGUSR1);
	child_says(&child, 1);
	half = look(&chain, private);
	kill(chain.pid[chain.count], SIGUSR1);
	child_says(&child, 1);
	series_add(&all[AFTER], look(&chain, private));
	series_add(&all[GROWTH], all[AFTER].value[all[AFTER].count - 1] - half);
	kill(chain.pid[chain.count], SIGKILL);
	child_wait(&child);
}

static void rows(struct report *report, int i, const struct series *all)
{
	const struct target most = {.most = 400}, none = {.most = 0};
	char what[96];

	for (int kind = 0; kind < FIGURES; kind++) {
		const struct target *target = NULL;

		if (kind == GROWTH && (i == TREEWRAP || i == TREEWRAP_STATIC))
			target = &none;
		if ((kind == PRIVATE || kind == AFTER) && i == TREEWRAP_STATIC)
			target = &most;
		snprintf(what, sizeof(what), "%s: %s", subjects[i].name, figure[kind]);
		report_row(report, what, &all[kind], "kB", target);
	}
	report_number(report, subjects[i].name, i, &all[PRIVATE]);
}

void measure_memory(struct report *report, const struct size *size)
{
	struct series all[SUBJECTS][FIGURES] = {{{NULL, 0}}};

	report_section(report, "memory", "5. Memory of a subject's own processes");
	for (int round = 0; round < size->memory_rounds; round++)
		for (int i = 0; i < SUBJECTS; i++)
			if ((subjects[i].can & (ADOPTS | INIT)) != 0 &&
			    subject_is_here(&subjects[i]))
				once(&subjects[i], size->memory_orphans, all[i]);
	for (int i = 0; i < SUBJECTS; i++) {
		if ((subjects[i].can & (ADOPTS | INIT)) != 0)
			rows(report, i, all[i]);
		for (int kind = 0; kind < FIGURES; kind++)
			series_empty(&all[i][kind]);
	}
}
