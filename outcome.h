/* How treewrap ends, from how the command and its tree ended: spec section 4. */
#ifndef OUTCOME_H
#define OUTCOME_H

#include "options.h"
#include "status.h"

struct outcome {
	int status;
	int die_of; /* a signal to die of instead, so that the caller sees it; or 0 */
};

/* The exit contract. PID_1: this process cannot die of a signal. */
struct outcome outcome_of(const struct options *opt, const struct ending *ending,
			  bool pid_1);

#endif
