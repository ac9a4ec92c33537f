/* Privileges: what treewrap itself keeps. */
#ifndef PRIVS_H
#define PRIVS_H

/*
 * Gives up every capability of this process except CAP_KILL (to end set-user-ID
 * descendants) and CAP_SYS_NICE (to win against a fork bomb), and those only if it had
 * them. Returns 0, or -1 if the kernel refused.
 */
int privs_keep_needed(void);

#endif
