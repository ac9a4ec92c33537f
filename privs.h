/* Privileges: what treewrap itself keeps, and when it makes use of it. */
#ifndef PRIVS_H
#define PRIVS_H

#include <stdbool.h>

/* What there is of what is needed. A capability that is kept is in effect only between
 * privs_use(..., true) and privs_use(..., false). */
struct privs {
	bool kill;     /* CAP_KILL: to end members that have become another user's */
	bool nice;     /* CAP_SYS_NICE: to win against a fork bomb */
	bool override; /* CAP_DAC_OVERRIDE: to remove a cgroup where the modes do not let
			  us */
	bool kill_is_callers; /* it was in effect when we were started: who started us
				 could signal anybody himself */
	bool kill_at_death;   /* it stays in effect: see privs_keep() */
};

enum privilege { PRIVILEGE_KILL, PRIVILEGE_NICE, PRIVILEGE_OVERRIDE };

/* What this process has. */
void privs_look(struct privs *privs);

/*
 * Gives up every capability of this process but those of PRIVS, in all sets, and the way
 * to others by executing something. NULL: all. None is in effect then; but where the
 * command is another user's (OTHER_USER), and CAP_KILL is our caller's, that is: the
 * signal that our death sends to the command (PR_SET_PDEATHSIG) is sent with our rights.
 * Returns 0, or -1 if the kernel refused.
 */
int privs_keep(struct privs *privs, bool other_user);

/* Puts what was kept into effect or out of it. Without it: changes nothing. */
void privs_use(const struct privs *privs, enum privilege privilege, bool on);

/*
 * Raises this process's priority if it may, never a condition. Deadlines must hold, and
 * killing must win, among a thousand processes that fork as fast as they can: one that
 * waits for its turn with them comes seconds late. Children do not inherit it: they get
 * an ordinary one. True if it is a real-time priority now.
 */
bool privs_raise_priority(void);

/* Back to the ordinary one, and in no hurry. Cannot fail: nobody may not be so. */
void privs_lower_priority(void);

/* True if a child of this process after privs_raise_priority() has the same priority that
 * it would have had before. */
bool privs_are_ordinary(void);

/*
 * From here on no process of the same user can trace this one, or read or write its
 * memory (PR_SET_DUMPABLE): a command could hold us so that no deadline holds. Its own
 * /proc/self/fd is closed to it too. Not before the command's exec, with which we share
 * memory.
 */
void privs_seal(void);

#endif
