/* Passing on to the command the signals that treewrap gets. */
#ifndef FORWARD_H
#define FORWARD_H

#include "command.h"
#include "link.h"
#include "options.h"
#include "tree.h"

#include <stdbool.h>

/* Who can be meant by a signal. The owner must not reap while forward() is at work. */
struct forwarding {
	const struct options *opt;
	struct tree *tree;
	const struct command *command; /* not reaped yet; NULL if it has been */
	pid_t shim_group;
	bool shim_leads_session;
};

/* What became of it. */
struct forwarded {
	int signo;
	enum scope to;
	bool refused; /* it was for the command alone, which we may not signal */
};

/*
 * Sends on what ARRIVED: rewritten, with its value, once, to whom the options say; if the
 * command has ended, to its leftovers. False if nothing is to be sent: the options drop
 * it, or the terminal has given the command its own copy.
 */
bool forward(const struct forwarding *forwarding, const struct arrived *arrived,
	     struct forwarded *forwarded);

/*
 * The same before the command's exec, when nobody but its own process can be meant. Calls
 * nothing that could fail, for errno is that process's too (see command.h).
 */
void forward_before_exec(const struct forwarding *forwarding,
			 const struct arrived *arrived);

/* True if SIGNO is one that a terminal sends to its foreground group or session. */
bool forward_is_by_terminal(int signo);

#endif
