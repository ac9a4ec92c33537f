/* Which descriptors treewrap holds: above 2, and no more than it needs. */
#ifndef DESCRIPTORS_H
#define DESCRIPTORS_H

#include <stddef.h>

/*
 * DESCRIPTOR itself, or a close-on-exec copy of it at 3 or above with the original
 * closed: the numbers 0 to 2 belong to the command even when they were closed at
 * start. -1 and errno if that fails or DESCRIPTOR is -1.
 */
int descriptor_above_2(int descriptor);

/*
 * Closes every descriptor of this process but the COUNT (at most 64) that KEEP lists;
 * entries of -1 are passed over. Sorts KEEP.
 */
void descriptors_close_all_but(int keep[], size_t count);

#endif
