/*
 * A run in progress, for the files that make up the reaper: start.c brings the command
 * into being, reaper.c sees the tree to its end, stop.c signals it and kills it, serve.c
 * answers who asks.
 */
#ifndef RUN_H
#define RUN_H

#include "command.h"
#include "control.h"
#include "forward.h"
#include "link.h"
#include "names.h"
#include "reaper.h"

#include <poll.h>

/* See reaper.c. */
enum phase { RUNNING, DRAINING, STOPPING, KILLING, GONE };

struct reaper {
	const struct options *opt;
	struct tree *tree;
	struct status *status;
	struct watches *watches;
	enum contain contain;
	struct cgroup *cgroup;
	const struct privs *privs;
	struct control *control; /* of a run that has a name, or NULL */
	int signals, link;
	int epoll; /* see wait.h */
	pid_t shim, front, shim_group;
	pid_t session; /* in which the command was started */
	bool shim_leads_session;

	enum phase phase;
	struct command command;
	bool command_runs;
	bool command_stopped;
	bool early_stop;       /* a signal of --stop-on came before the exec */
	unsigned stops;	       /* of the command, counted */
	bool passed_stop;      /* a stop signal was passed on, and no SIGCONT since */
	uint64_t group_copies; /* came while we were in the shim's group: it has them */
	bool childless;	       /* waitid said ECHILD: there is no descendant */
	bool more_to_reap;
	bool crowded;	  /* we get the CPU late: there are many who want it */
	bool just_walked; /* the tree's list is of this moment */
	bool felling;	  /* rounds of killing need not find all: see tree_fell() */
	bool stop_untold; /* there is no stop record yet of the stop that goes on */

	int64_t ready_at; /* when to get ready for a long run; NEVER: it has been done */
	int64_t timeout_at; /* absolute, as all that follow; NEVER where there is none */
	int64_t phase_ends_at;
	int64_t verify_ends_at;
	int64_t last_death_at;
	int64_t rest_ends_at; /* until then nobody is reaped; mostly in the past */
	int64_t round_began_at;
	int64_t pardoned_at;
	unsigned rung;	       /* of the ladder, while stopping */
	unsigned rounds;       /* of killing */
	unsigned idle_rounds;  /* in a row, in which nothing died */
	unsigned barren;       /* rounds of felling in a row that reached nobody */
	unsigned killed, died; /* since we kill: sent SIGKILL to, fetched the end of */
	unsigned died_before_round;
	unsigned listed; /* children, when they were last fetched one by one */

	struct ending ending;
};

/* Where each thing that is waited for stands; then come the watches, as many as there
 * are, and then what control_fill_poll() makes, if the run has a name. */
enum {
	POLL_SIGNALS,
	POLL_LINK,
	POLL_EVENTS,
	POLL_CGROUP,
	POLL_WATCHES,
	POLL_MAX = POLL_WATCHES + WATCHES_MAX + CONTROL_POLLED,
};

/* Fills FDS with all that R waits for now. Returns how many. */
unsigned reaper_fill_poll(const struct reaper *r, struct pollfd fds[POLL_MAX]);

/* What poll(2) does not tell must be looked at so often; else NEVER. In nanoseconds. */
int64_t reaper_look_again_ns(const struct reaper *r);

/* Looks at what FDS tells of the shim, of watches and of readers; and at the clock. */
void reaper_look_around(struct reaper *r, const struct pollfd fds[POLL_MAX]);

/* Whom signals are forwarded to now. */
struct forwarding reaper_forwarding(const struct reaper *r);

/*
 * For signals that somebody else wants sent: with CAP_KILL only if our caller has it
 * himself. (Where our file gives it to us, he must not get it by way of us.)
 */
void reaper_use_callers_rights(const struct reaper *r, bool on);

/* Does SIGNO stop the tree (--stop-on)? */
bool reaper_is_stopped_by(const struct reaper *r, int signo);

/* Is ARRIVED, which has come to this process, more than a copy of what the shim got? */
bool reaper_is_for_us(struct reaper *r, struct arrived *arrived);

/* Does what MESSAGE, from the shim, says. True: that is a signal, to be received. */
bool reaper_take_message(struct reaper *r, struct link_message *message);

/* A child has ended, stopped or run on, as INFO says (from waitid(2)). */
void reaper_child_changed(struct reaper *r, const siginfo_t *info);

/* Tells the guise, if we are called by another name. */
void reaper_tell(const struct reaper *r, enum happening what, int number, int how);

/* CAUSE stops the tree, unless it is being stopped already. */
void reaper_stop(struct reaper *r, enum cause cause);

/*
 * Finds the tree, unless reaper_stop() has done so just now. If it will be killed anyway
 * and may be forking as fast as we walk, it is stopped on the way. (As PID 1, and in a
 * cgroup, the kernel kills or freezes all at once: nobody gets the time to fork, and
 * stopping those that die would only hold them up. Who has left the cgroup has its turn
 * when that is empty.)
 */
void reaper_find_tree(struct reaper *r);

/* Sends the ladder's present signal. Returns how many it reached. */
unsigned reaper_signal_politely(struct reaper *r);

/*
 * To be called before the first round of killing. The tree will be felled if that can be
 * done, and nobody is to be told how many processes there are. REAL_TIME: so is our
 * priority. Without it, where many want the CPU, all are frozen before the first round:
 * each that is stopped leaves us more of the CPU.
 */
void reaper_choose_rounds(struct reaper *r, bool real_time);

/*
 * One round: fell the tree, as long as that leaves more to be felled; or find, and kill,
 * children first. Most trees end by the first round or by felling. What is left after it
 * may be forking as fast as we kill, so all are frozen before further ones. Returns how
 * many it reached.
 */
unsigned reaper_kill_round(struct reaper *r);

/* No more felling: children of those that do not die are looked for from now on. */
void reaper_fell_no_more(struct reaper *r);

/*
 * How long those that were killed are best left alone, in nanoseconds: to be woken for
 * each would take the CPU from those that are still to die. 0 if they are few.
 */
int64_t reaper_rest_ns(const struct reaper *r);

/*
 * Is it time for the next round? Not while those killed are still dying, one after the
 * other: walking over them would only take their CPU. But never later than the longest
 * pause.
 */
bool reaper_round_is_due(const struct reaper *r, int64_t now);

/* Starts the command. False if no process could be born for it. */
bool reaper_start(struct reaper *r, const struct reaper_setup *setup);

#endif
