/*
 * The reaper owns the tree: it starts the command, waits, keeps deadlines and watches,
 * climbs the ladder and reaps until the kernel says that no descendant is left.
 */
#ifndef REAPER_H
#define REAPER_H

#include "control.h"
#include "options.h"
#include "outcome.h"
#include "privs.h"
#include "signals.h"
#include "status.h"
#include "tree.h"
#include "watch.h"

#include <sys/types.h>

/* What the reaper works with; all of it is prepared and owned by its caller. */
struct reaper_setup {
	const struct options *opt;
	const struct inherited *inherited;
	struct tree *tree;
	struct status *status;
	struct watches *watches;
	enum contain contain;	 /* what it came to, never CONTAIN_AUTO */
	struct cgroup *cgroup;	 /* the run's own, or NULL; removed at the end */
	struct privs *privs;	 /* what is kept */
	struct control *control; /* of a run with a name, or NULL; removed at the end */
	int signals;		 /* from signals_open() */
	int link;	  /* to the shim; -1: there is none, this process is PID 1 */
	pid_t front;	  /* the process that the caller started: the shim or its relay */
	pid_t shim;	  /* our parent; as PID 1, ourselves */
	pid_t shim_group; /* its process group; 0: led from outside our PID namespace */
	pid_t session;	  /* its session; 0 as for the group */
	bool shim_leads_session;
};

/*
 * Runs the command and ends its tree. Closes every descriptor that SETUP does not name,
 * leaves the working directory and gives up privileges once the command has them.
 * Returns when no descendant is left, or survivors have been reported, or (--leftovers
 * leave) the command has ended.
 */
struct outcome reaper_run(const struct reaper_setup *setup);

#define REAPER_KEEPS_MORE (2 + WATCHES_MAX)

/*
 * Most commands end soon, and leave nothing: to open a view of /proc would cost more than
 * much of the rest. So both processes do it only after this time, or for the first walk.
 */
#define READY_NS (10 * NS_PER_MS)

/*
 * For shim and reaper, once the command has got all that is its: lets go of everything
 * but what SETUP and the COUNT (at most REAPER_KEEPS_MORE) descriptors of MORE are needed
 * for to the end, and seals the process.
 */
void reaper_settle(const struct reaper_setup *setup, const int more[], size_t count);

/*
 * For the shim whose reaper was killed: ends what the kernel has handed to this process,
 * by SIGKILL at once, and reports. SETUP->link is -1. ALL_ENDED: there are no survivors.
 */
struct outcome reaper_take_over(const struct reaper_setup *setup, bool *all_ended);

#endif
