/*
 * report: the table and the numbers. A table is for people and for comparison by eye;
 * programs read the .dat files.
 */
#include "report.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "subject.h"

/* To the table and to standard output. */
__attribute__((format(printf, 2, 3))) static void say(struct report *report,
						      const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vfprintf(report->table, format, list);
	va_end(list);
	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	fflush(stdout);
	fflush(report->table);
}

static FILE *open_in(const struct report *report, const char *name, const char *mode)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", report->folder, name);
	file = fopen(path, mode);
	if (file == NULL)
		die("open", path);
	return file;
}

static void say_processor(struct report *report)
{
	char line[512], *name = NULL;
	FILE *const file = fopen("/proc/cpuinfo", "re");

	while (file != NULL && name == NULL && fgets(line, sizeof(line), file) != NULL)
		if (strncmp(line, "model name", 10) == 0 &&
		    (name = strchr(line, ':')) != NULL)
			name[strcspn(name, "\n")] = '\0';
	if (file != NULL)
		fclose(file);
	say(report, "%ld x %s", sysconf(_SC_NPROCESSORS_ONLN),
	    name == NULL ? "unknown processor" : name + 2);
}

static void say_missing(struct report *report)
{
	int missing = 0;

	for (int i = 0; i < SUBJECTS; i++)
		if (!subject_is_here(&subjects[i]))
			say(report, "%s%s", missing++ == 0 ? "\nMissing: " : ", ",
			    subjects[i].name);
	if (missing > 0)
		say(report, ".\n");
}

void report_open(struct report *report)
{
	const time_t moment = time(NULL);
	struct utsname machine;
	double load[1] = {0};
	struct tm date;
	char day[32];

	report->table = open_in(report, "README.md", "we");
	uname(&machine);
	strftime(day, sizeof(day), "%Y-%m-%d", gmtime_r(&moment, &date));
	say(report, "# Results\n\nWritten by `make bench`; ");
	say(report, "see ../README.md for what each row is.\n\n");
	say(report, "%s, Linux %s %s, ", day, machine.release, machine.machine);
	say_processor(report);
	if (getloadavg(load, 1) == 1)
		say(report, ", load %.1f before it began", load[0]);
	say(report, ".\n");
	say_missing(report);
}

void report_section(struct report *report, const char *name, const char *title)
{
	char file[64];

	if (report->table == NULL)
		report->table = open_in(report, "README.md", "ae");
	if (report->numbers != NULL)
		fclose(report->numbers);
	snprintf(file, sizeof(file), "%s.dat", name);
	report->numbers = open_in(report, file, "we");
	say(report, "\n## %s (%s)\n\n| %-52s | %9s | %19s | %5s | %-9s | %-8s | %-3s |\n",
	    title, report->size, "what", "median", "quartiles", "n", "unit", "target",
	    "met");
	say(report, "| %.52s | %.8s: | %.18s: | %.4s: | %.9s | %.8s | %.3s |\n",
	    "----------------------------------------------------", "--------",
	    "------------------", "----", "---------", "--------", "---");
}

/* With as many digits as the spread of such measurements deserves. */
static int digits(double value)
{
	const double size = fabs(value);

	if (size == floor(size))
		return 0;
	if (size >= 1000)
		return 0;
	return size >= 100 ? 1 : 2;
}

void report_row(struct report *report, const char *what, const struct series *series,
		const char *unit, const struct target *target)
{
	const double median = series_at(series, 0.5), low = series_at(series, 0.25),
		     high = series_at(series, 0.75);
	char quartiles[64], limit[32] = "";
	const char *met = "";

	if (series->count == 0) {
		report_missing(report, what, "missing");
		return;
	}
	snprintf(quartiles, sizeof(quartiles), "%.*f - %.*f", digits(low), low,
		 digits(high), high);
	if (target != NULL) {
		const int most = target->least == 0;

		snprintf(limit, sizeof(limit), "%s %g",
			 most ? "<=" : ">=", most ? target->most : target->least);
		met = (most ? median <= target->most : median >= target->least) ? "yes"
										: "NO";
	}
	say(report, "| %-52s | %9.*f | %19s | %5zu | %-9s | %-8s | %-3s |\n", what,
	    digits(median), median, quartiles, series->count, unit, limit, met);
}

void report_ratio(struct report *report, const struct series *all, int above, int below,
		  double most)
{
	const struct target target = {.most = most};
	struct series ratios = {NULL, 0};
	char what[96];

	series_ratios(&ratios, &all[above], &all[below]);
	snprintf(what, sizeof(what), "%s / %s", subjects[above].name,
		 subjects[below].name);
	report_row(report, what, &ratios, "times", &target);
	series_empty(&ratios);
}

void report_missing(struct report *report, const char *what, const char *why)
{
	say(report, "| %-52s | %9s | %19s | %5d | %-9s | %-8s | %-3s |\n", what, "-", why,
	    0, "", "", "");
}

void report_number(struct report *report, const char *key, double x,
		   const struct series *series)
{
	if (series->count > 0)
		fprintf(report->numbers, "\"%s\" %g %g %g %g\n", key, x,
			series_at(series, 0.5), series_at(series, 0.25),
			series_at(series, 0.75));
}

void report_set(struct report *report, const char *name)
{
	fprintf(report->numbers, "\n\n# %s\n", name);
}
