/* Privileges: what treewrap itself keeps. */
#ifndef PRIVS_H
#define PRIVS_H

#include <stdbool.h>

/*
 * Gives up every capability of this process except CAP_KILL (to end set-user-ID
 * descendants) and CAP_SYS_NICE (to win against a fork bomb), and with OVERRIDE
 * CAP_DAC_OVERRIDE, for privs_override(); and those only if it had them. Returns 0, or -1
 * if the kernel refused.
 */
int privs_keep_needed(bool override);

/*
 * Makes CAP_DAC_OVERRIDE, if it was kept, effective or not: to remove a cgroup where the
 * modes do not let us (in the hierarchy's own root, which not even root may write to; or
 * one below ours that the command gave to another user).
 */
void privs_override(bool on);

/*
 * Raises this process's priority if it may, never a condition. Deadlines must hold, and
 * killing must win, among a thousand processes that fork as fast as they can: one that
 * waits for its turn with them comes seconds late. Not before the command has been born,
 * which would inherit it.
 */
void privs_raise_priority(void);

/*
 * From here on no process of the same user can trace this one, or read or write its
 * memory (PR_SET_DUMPABLE): a command could hold us so that no deadline holds. Its own
 * /proc/self/fd is closed to it too. Not before the command's exec, with which we share
 * memory.
 */
void privs_seal(void);

#endif
