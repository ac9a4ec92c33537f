/*
 * Other programs' names. Called as one of them (by the last part of argv[0], or by --as
 * NAME) treewrap reads that program's command line, says what it says and exits as it
 * does; what runs and ends the tree is the same as ever. All that is special to a name is
 * in its struct guise and in the options that it fills.
 */
#ifndef NAMES_H
#define NAMES_H

#include "command.h"
#include "options.h"
#include "outcome.h"
#include "status.h"

/* What a guise may want to tell of, with NUMBER and HOW. */
enum happening {
	COMMAND_STARTED, /* process NUMBER */
	SIGNAL_RECEIVED, /* NUMBER, by treewrap, which passes it on */
	SIGNAL_SENT,	 /* NUMBER, to the command that is being stopped */
	CHILD_ENDED,	 /* process NUMBER; HOW: exit status, or minus the signal */
	COMMAND_ENDED,	 /* the same, after that */
	COMMAND_DUMPED,	 /* core, after that */
};

struct guise {
	const char *name;
	/* Its command line, as options_parse() does. */
	void (*parse)(struct options *opt, int argc, char **argv);
	/* Before the start, with all signals blocked: what it changes of its own process,
	 * and in INHERITED of what the command gets. */
	void (*prepare)(const struct options *opt, struct inherited *inherited,
			struct status *status);
	/* Says so, and returns the exit status. */
	int (*cannot_run)(const struct options *opt, const struct failure *failure,
			  struct status *status);
	/* As outcome_of(), where all has been ended. */
	struct outcome (*outcome)(const struct options *opt, const struct ending *ending,
				  bool pid_1);
	void (*tell)(const struct options *opt, struct status *status,
		     enum happening what, int number, int how);
};

extern const struct guise as_timeout, as_dumb_init;

/* Reads the command line of the program that ARGV calls. */
void names_parse(struct options *opt, int argc, char **argv);

/* For a guise: what options_parse() leaves alone, with the name and the prefix set. */
void names_begin(struct options *opt, const struct guise *guise, const char *prefix);

/* For its prepare(): these signals the command does not ignore, those it does not block.
 */
void names_reset(struct inherited *inherited, uint64_t ignored, uint64_t blocked);

static inline uint64_t signal_bit(int signo)
{
	return UINT64_C(1) << (signo - 1);
}

#endif
