#ifndef SERIES_H
#define SERIES_H

#include <stddef.h>

/*
 * Measured values in the order in which they were measured. The n-th ones of two series
 * were measured side by side, in one round: ratios are taken between those. A zeroed one
 * is empty.
 */
struct series {
	double *value;
	size_t count;
};

void series_add(struct series *series, double value);

/* The value below which SHARE (0 to 1) of all lie; 0.5 is the median. NaN for an empty
 * one. */
double series_at(const struct series *series, double share);

/* Adds to TO what each of ABOVE is in terms of its neighbour in BELOW. */
void series_ratios(struct series *to, const struct series *above,
		   const struct series *below);

void series_empty(struct series *series);

#endif
