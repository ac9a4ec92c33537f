/* What treewrap holds while the command runs: as little as it can. */
#ifndef LET_GO_H
#define LET_GO_H

#include "privs.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Closes every descriptor of this process but the COUNT (at most 64) that KEEP lists,
 * entries of -1 passed over; leaves the working directory; gives up privileges (PRIVS and
 * OTHER_USER as in privs_keep()). For each of treewrap's processes once the command has
 * got all that. Sorts KEEP.
 */
void let_go(int keep[], size_t count, struct privs *privs, bool other_user);

#endif
