/* Descriptors that keep out of the command's way. */
#ifndef DESCRIPTOR_H
#define DESCRIPTOR_H

/*
 * DESCRIPTOR itself, or a close-on-exec copy of it at 3 or above with the original
 * closed: the numbers 0 to 2 belong to the command even when they were closed at
 * start. -1 and errno if that fails or DESCRIPTOR is -1.
 */
int descriptor_above_2(int descriptor);

#endif
