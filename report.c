/*
 * Promises: a zombie, which is a status that nobody has fetched and no process, is never
 * reported. A report is of the moment and proves nothing: only ECHILD does.
 */
#include "report.h"
#include "clock.h"

#include <string.h>

void report_leftovers(struct tree *tree, struct status *status, const struct options *opt,
		      struct ending *ending)
{
	struct tree_report report;
	unsigned living = 0;

	tree_walk(tree);
	for (unsigned i = 0; i < tree->count; i++) {
		if (!tree_describe(tree, i, &report))
			continue;
		if (living < LEFTOVER_NAMES_MAX)
			memcpy(ending->leftover_names[living], report.command,
			       PROC_COMMAND_SIZE);
		living++;
	}
	ending->leftovers = living;
	if (living > 0)
		say_more(status, "the command has ended and left %u process%s (%s%s)%s",
			 living, living == 1 ? "" : "es", ending->leftover_names[0],
			 living == 1 ? "" : ", ...",
			 opt->leftovers == LEFTOVERS_LEAVE ? ", as asked" : "");
}

void report_survivors(struct tree *tree, struct status *status, const struct options *opt,
		      struct ending *ending)
{
	struct tree_report report;

	tree_walk(tree);
	for (unsigned i = 0; i < tree->count; i++) {
		if (!tree_describe(tree, i, &report))
			continue;
		if (ending->survivors < SURVIVORS_MAX) {
			struct survivor *survivor = &ending->survivor[ending->survivors];
			survivor->process = report;
			tree_explain(tree, &report, survivor->reason, REASON_SIZE);
			survivor->process.pid = tree_number_outside(tree, report.pid);
			say(status, "process %d (%s) survived SIGKILL: %s",
			    (int)survivor->process.pid, report.command, survivor->reason);
		}
		ending->survivors++;
	}
	/* If none was seen, the kernel still has not said ECHILD: that counts. */
	if (ending->survivors == 0)
		ending->survivors = 1;
	say(status, "%u process%s left after SIGKILL and %lld ms", ending->survivors,
	    ending->survivors == 1 ? "" : "es",
	    (long long)(opt->verify_for_ns / NS_PER_MS));
}
