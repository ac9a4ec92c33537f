/* What is left in the tree, told to people and to programs. */
#ifndef REPORT_H
#define REPORT_H

#include "options.h"
#include "status.h"
#include "tree.h"

/* Counts into ENDING the processes that outlive the command, with their names. */
void report_leftovers(struct tree *tree, struct status *status, const struct options *opt,
		      struct ending *ending);

/* Names on standard error and in ENDING those that SIGKILL has not ended in time, and
 * why. */
void report_survivors(struct tree *tree, struct status *status, const struct options *opt,
		      struct ending *ending);

#endif
