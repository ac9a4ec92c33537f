/* What treewrap holds while the command runs: as little as it can. */
#ifndef LET_GO_H
#define LET_GO_H

#include "privs.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * DESCRIPTOR itself, or a close-on-exec copy of it at 3 or above with the original
 * closed: the numbers 0 to 2 belong to the command even when they were closed at
 * start. -1 and errno if that fails or DESCRIPTOR is -1.
 */
int descriptor_above_2(int descriptor);

/*
 * Closes every descriptor of this process but the COUNT (at most 64) that KEEP lists,
 * entries of -1 passed over; leaves the working directory; gives up privileges (PRIVS and
 * OTHER_USER as in privs_keep()). For each of treewrap's processes once the command has
 * got all that. Sorts KEEP.
 */
void let_go(int keep[], size_t count, struct privs *privs, bool other_user);

#endif
