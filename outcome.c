/* Promises: the status of README.md's table, row by row, and 0 for nothing but success.
 */
#include "outcome.h"
#include "names.h"

#include <signal.h>

/* What the command itself came to. */
static struct outcome of_command(const struct options *opt, const struct ending *ending,
				 bool pid_1)
{
	const int signo = ending->signo;

	if (signo != 0)
		/* INT and QUIT are died of, so that a shell's loop stops at Ctrl-C. */
		return (struct outcome){
			.status = 128 + signo,
			.die_of = !pid_1 && (signo == SIGINT || signo == SIGQUIT) ? signo
										  : 0,
		};
	if (ending->exit_code == 0 && opt->leftovers == LEFTOVERS_FAIL &&
	    ending->had_to_stop_leftovers)
		return (struct outcome){STATUS_LEFTOVERS, 0};
	return (struct outcome){ending->exit_code, 0};
}

struct outcome outcome_of(const struct options *opt, const struct ending *ending,
			  bool pid_1)
{
	struct outcome outcome;

	if (ending->survivors > 0 || ending->cause == CAUSE_REAPER_KILLED)
		return (struct outcome){STATUS_FAILED, 0};
	if (ending->cause == CAUSE_EXEC_FAILED)
		return (struct outcome){ending->status, 0};
	if (opt->as.guise != NULL && ending->command_ended)
		return opt->as.guise->outcome(opt, ending, pid_1);
	if (ending->was_asked && !(opt->preserve_status && ending->command_ended))
		outcome = (struct outcome){ending->cause == CAUSE_TIMEOUT ? STATUS_TIMEOUT
									  : STATUS_WATCH,
					   0};
	else if (ending->command_ended)
		outcome = of_command(opt, ending, pid_1);
	else
		/* The kernel tells each child's end once; if not to us, 0 were a guess.
		 */
		return (struct outcome){STATUS_FAILED, 0};
	if ((opt->remap[outcome.status / 8] >> (outcome.status % 8) & 1) != 0)
		return (struct outcome){0, 0};
	return outcome;
}
