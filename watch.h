/* What is watched so that the tree can be stopped when it ends or hangs up. */
#ifndef WATCH_H
#define WATCH_H

#include "options.h"
#include "status.h"

#define WATCHES_MAX (2 + 2 * WATCH_MAX)

struct watch {
	int fd;
	short events; /* for poll(2); POLLHUP and POLLERR come by themselves */
	enum cause cause;
	bool unpolled; /* poll(2) tells nothing: ask watch_is_over() every so often */
};

#define WATCH_LOOK_MS 100

struct watches {
	unsigned count;
	struct watch watch[WATCHES_MAX];
};

/*
 * Opens all that OPT wants watched, in the process that the caller started (its parent
 * is the one that --watch-parent means). Ends the process by die() if something cannot
 * be watched. Returns false if a --watch-pid is gone already: nothing is to be run.
 */
bool watches_open(struct watches *watches, const struct options *opt,
		  struct status *status);

/* Has what WATCH watches ended or hung up? REVENTS is what poll(2) said of it. */
bool watch_is_over(const struct watch *watch, short revents);

#endif
