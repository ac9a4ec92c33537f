#ifndef REPORT_H
#define REPORT_H

#include <stdio.h>

#include "series.h"

/* Where results go: a table of Markdown, which is printed too, and numbers to be plotted.
 */
struct report {
	const char *folder;
	const char *size;
	FILE *table;
	FILE *numbers;
};

/* What a median is to be; a zeroed one is no target. */
struct target {
	double most;
	double least;
};

/* The table begins anew: with the machine, and with what is missing of the subjects. */
void report_open(struct report *report);

/* A section, and its file of numbers NAME.dat. */
void report_section(struct report *report, const char *name, const char *title);

/* One row: median, quartiles, how many, and whether the target is met. */
void report_row(struct report *report, const char *what, const struct series *series,
		const char *unit, const struct target *target);

/* The row of the ratio of two of ALL, which belong to the subjects; it is to be MOST. */
void report_ratio(struct report *report, const struct series *all, int above, int below,
		  double most);

/* A row that could not be measured. */
void report_missing(struct report *report, const char *what, const char *why);

/* A line of the numbers: KEY, X, median, quartiles. */
void report_number(struct report *report, const char *key, double x,
		   const struct series *series);

/* Numbers that follow are another set: gnuplot's index NAME. */
void report_set(struct report *report, const char *name);

#endif
