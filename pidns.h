/*
 * A PID namespace of the run's own: the reaper is its process 1, so if that ends, however
 * it ends, the kernel ends all the rest.
 */
#ifndef PIDNS_H
#define PIDNS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Flags for clone(2) with which the child is process 1 of a new PID namespace in a new
 * mount namespace. WITH_USER: in a new user namespace too, which needs no privilege.
 */
int pidns_flags(bool with_user);

/*
 * In that child: makes it USER and GROUP as they are outside, if WITH_USER; gives it a
 * /proc of its own that nobody outside sees. False, and in WHY the reason, if that
 * cannot be had.
 */
bool pidns_enter(bool with_user, uid_t user, gid_t group, char *why, size_t size);

#endif
