/*
 * series: values, their quantiles and ratios. No statistics beyond that: what medians and
 * quartiles do not show is not claimed.
 */
#include "series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "subject.h"

void series_add(struct series *series, double value)
{
	double *const more =
		realloc(series->value, (series->count + 1) * sizeof(*series->value));

	if (more == NULL)
		die("memory", "a value");
	series->value = more;
	series->value[series->count++] = value;
}

static int compare(const void *left, const void *right)
{
	const double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

double series_at(const struct series *series, double share)
{
	double *sorted, place, below, value;
	size_t first;

	if (series->count == 0)
		return NAN;
	sorted = malloc(series->count * sizeof(*sorted));
	if (sorted == NULL)
		die("memory", "a quantile");
	memcpy(sorted, series->value, series->count * sizeof(*sorted));
	qsort(sorted, series->count, sizeof(*sorted), compare);
	place = share * (double)(series->count - 1);
	below = floor(place);
	first = (size_t)below;
	value = sorted[first];
	if (first + 1 < series->count)
		value += (place - below) * (sorted[first + 1] - sorted[first]);
	free(sorted);
	return value;
}

void series_ratios(struct series *to, const struct series *above,
		   const struct series *below)
{
	for (size_t i = 0; i < above->count && i < below->count; i++)
		series_add(to, above->value[i] == below->value[i]
				       ? 1
				       : above->value[i] / below->value[i]);
}

void series_empty(struct series *series)
{
	free(series->value);
	memset(series, 0, sizeof(*series));
}
