/*
 * Promises: every process that is listed is drawn once, below its parent if that is
 * listed before it, whatever the numbers say; neither recursion nor an endless loop comes
 * of them. A line is of bounded length but for its command.
 */
#include "draw.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NONE SIZE_MAX

#define COMMAND_LINE_MAX 4096

/* So many levels are drawn; deeper processes stand below each other, with how much deeper
 * they are. The lines of a chain of thousands would be megabytes. */
#define LEVELS_MAX 256

struct process {
	json_int_t pid, parent;
	const char *state, *command;
	char *line; /* its command line, or NULL */
	double age, cpu;
	bool escaped;
	/* Places in the list, or NONE. */
	size_t up, first, last, next;
};

struct forest {
	struct process *list;
	size_t count;
	size_t first, last; /* of those that have no parent here */
	size_t levels;	    /* that are drawn, LEVELS_MAX at most */
	int pid_width, age_width, cpu_width;
};

struct numbered {
	json_int_t pid;
	size_t place;
};

static int by_pid(const void *a, const void *b)
{
	const struct numbered *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x->place > y->place) - (x->place < y->place);
}

/* The place of the first process with the number PID, or NONE. */
static size_t find(const struct numbered *numbers, size_t count, json_int_t pid)
{
	size_t low = 0, high = count;

	/* Ends: the distance is halved. */
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (numbers[middle].pid < pid)
			low = middle + 1;
		else
			high = middle;
	}
	return low < count && numbers[low].pid == pid ? numbers[low].place : NONE;
}

static void append(struct forest *forest, size_t place, size_t parent)
{
	struct process *p = forest->list;
	size_t *first = parent == NONE ? &forest->first : &p[parent].first;
	size_t *last = parent == NONE ? &forest->last : &p[parent].last;

	p[place].up = parent;
	if (*last == NONE)
		*first = place;
	else
		p[*last].next = place;
	*last = place;
}

/* Only one that is listed before is a parent, so there can be no cycle. */
static bool link_all(struct forest *forest)
{
	const size_t count = forest->count;
	struct numbered *numbers = calloc(count + 1, sizeof(*numbers));

	if (numbers == NULL)
		return false;
	for (size_t i = 0; i < count; i++)
		numbers[i] = (struct numbered){forest->list[i].pid, i};
	qsort(numbers, count, sizeof(*numbers), by_pid);
	for (size_t i = 0; i < count; i++) {
		const size_t parent = find(numbers, count, forest->list[i].parent);
		append(forest, i, parent < i ? parent : NONE);
	}
	free(numbers);
	return true;
}

/* The whole of a short file into TEXT as a string; its length. */
static size_t read_file(json_int_t pid, const char *name, char *text, size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%lld/%s", (long long)pid, name);
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	const ssize_t got = fd < 0 ? 0 : read(fd, text, size - 1);
	if (fd >= 0)
		close(fd);
	text[got > 0 ? got : 0] = '\0';
	return got > 0 ? (size_t)got : 0;
}

/*
 * The command line of the process PID, if that is what the run calls NAME (it may have
 * ended, or be in another PID namespace than we). The run itself does not read it: it
 * could be made to wait there, and we may. NULL if there is none.
 */
static char *read_command_line(json_int_t pid, const char *name)
{
	char text[COMMAND_LINE_MAX];

	read_file(pid, "comm", text, sizeof(text));
	text[strcspn(text, "\n")] = '\0';
	if (strcmp(text, name) != 0)
		return NULL;
	size_t length = read_file(pid, "cmdline", text, sizeof(text));
	/* Its words end in NULs. */
	while (length > 0 && text[length - 1] == '\0')
		length--;
	for (size_t i = 0; i < length; i++)
		if (text[i] == '\0')
			text[i] = ' ';
	return length > 0 ? strndup(text, length) : NULL;
}

static bool read_processes(struct forest *forest, const json_t *list,
			   const char **missing)
{
	forest->count = json_array_size(list);
	forest->list = calloc(forest->count + 1, sizeof(*forest->list));
	for (size_t i = 0; forest->list != NULL && i < forest->count; i++) {
		struct reader reader = {.object = json_array_get(list, i)};
		forest->list[i] = (struct process){
			.pid = read_count(&reader, "pid"),
			.parent = read_count(&reader, "parent"),
			.state = read_text(&reader, "state"),
			.command = read_text(&reader, "command"),
			.age = read_seconds(&reader, "age"),
			.cpu = read_seconds(&reader, "cpu"),
			.escaped = read_bool(&reader, "escaped"),
			.up = NONE,
			.first = NONE,
			.last = NONE,
			.next = NONE,
		};
		if (*missing == NULL)
			*missing = reader.missing;
	}
	return forest->list != NULL && *missing == NULL;
}

static void widen(int *width, int length)
{
	if (*width < length)
		*width = length;
}

static void measure(struct forest *forest)
{
	char age[DURATION_SIZE];

	forest->pid_width = forest->age_width = forest->cpu_width = 3;
	for (size_t i = 0; i < forest->count; i++) {
		const struct process *p = &forest->list[i];
		duration_text(p->age, age);
		widen(&forest->pid_width, snprintf(NULL, 0, "%lld", (long long)p->pid));
		widen(&forest->age_width, (int)strlen(age));
		widen(&forest->cpu_width, snprintf(NULL, 0, "%.2f", p->cpu));
	}
}

/* The lines before the process at PLACE; MORE says of each level whether it goes on. */
static void draw_lines(struct page *page, const struct forest *forest, size_t place,
		       size_t depth, const bool more[])
{
	size_t levels = forest->levels;
	const char *bar = page->utf8 ? "│  " : "|  ";
	const char *branch = page->utf8 ? "├─ " : "|- ";
	const char *corner = page->utf8 ? "└─ " : "`- ";

	if (depth == 0)
		return;
	if (depth < levels)
		levels = depth;
	for (size_t level = 1; level < levels; level++)
		page_text(page, more[level] ? bar : "   ");
	page_text(page, forest->list[place].next != NONE ? branch : corner);
	if (depth > levels)
		page_format(page, "[+%zu] ", depth - levels);
}

static void draw_process(struct page *page, const struct forest *forest, size_t place,
			 size_t depth, const bool more[])
{
	const struct process *p = &forest->list[place];
	char age[DURATION_SIZE];

	duration_text(p->age, age);
	page_format(page, "%*lld  ", forest->pid_width, (long long)p->pid);
	page_format(page, "%-5.1s  %*s  %*.2f  ", p->state, forest->age_width, age,
		    forest->cpu_width, p->cpu);
	draw_lines(page, forest, place, depth, more);
	if (p->escaped) {
		page_style(page, STYLE_WARNING);
		page_text(page, "* ");
		page_style(page, STYLE_NONE);
	}
	page_text(page, p->line != NULL ? p->line : p->command);
	page_end_line(page);
}

static void draw_forest(struct page *page, const struct forest *forest)
{
	const struct process *p = forest->list;
	bool more[LEVELS_MAX + 1] = {false};
	size_t at = forest->first, depth = 0;

	/* Ends: goes down before it goes on, and never back to a place. */
	while (at != NONE) {
		if (depth <= forest->levels)
			more[depth] = p[at].next != NONE;
		draw_process(page, forest, at, depth, more);
		if (p[at].first != NONE) {
			at = p[at].first;
			depth++;
			continue;
		}
		while (at != NONE && p[at].next == NONE) {
			at = p[at].up;
			depth--;
		}
		if (at != NONE)
			at = p[at].next;
	}
}

/* "build-7: 9 processes, 12 s, make -j8" */
static void draw_title(struct page *page, const char *name, const struct forest *forest,
		       json_int_t count, json_int_t pid, double age)
{
	char text[DURATION_SIZE];

	duration_text(age, text);
	page_style(page, STYLE_BOLD);
	page_format(page, "%s: %lld process%s, ", name, (long long)count,
		    count == 1 ? "" : "es");
	if (age < 60)
		page_format(page, "%d s", (int)age);
	else
		page_text(page, text);
	for (size_t i = 0; i < forest->count; i++) {
		if (forest->list[i].pid != pid)
			continue;
		page_text(page, ", ");
		page_text(page, forest->list[i].line != NULL ? forest->list[i].line
							     : forest->list[i].command);
		break;
	}
	page_style(page, STYLE_NONE);
	page_end_line(page);
}

static void draw_table(struct page *page, const struct forest *forest)
{
	if (forest->count == 0)
		return;
	page_style(page, STYLE_BOLD);
	page_format(page, "%*s  STATE  %*s  %*s  COMMAND", forest->pid_width, "PID",
		    forest->age_width, "AGE", forest->cpu_width, "CPU");
	page_style(page, STYLE_NONE);
	page_end_line(page);
	draw_forest(page, forest);
}

/* COUNT: of all, where not all fitted into the reply, else 0. (A process may also have
 * ended before more could be told of it.) */
static void draw_notes(struct page *page, const struct forest *forest, json_int_t count)
{
	bool escaped = false;

	for (size_t i = 0; i < forest->count; i++)
		escaped |= forest->list[i].escaped;
	if (count > (json_int_t)forest->count) {
		page_format(page, "%lld more did not fit into the reply",
			    (long long)(count - (json_int_t)forest->count));
		page_end_line(page);
	}
	if (escaped) {
		page_text(page, "* in another session");
		page_end_line(page);
	}
}

bool draw_tree(struct page *page, const char *name, struct reader *reader)
{
	struct forest forest = {.first = NONE, .last = NONE, .levels = LEVELS_MAX};
	const json_int_t count = read_count(reader, "count");
	const json_int_t pid = read_count_or_null(reader, "pid");
	const double age = read_seconds(reader, "age");
	const bool truncated = json_is_true(json_object_get(reader->object, "truncated"));
	const json_t *list = read_list(reader, "processes");

	/* Where lines are cut, half of them is the commands'. */
	if (page != NULL && page->width / 6 < LEVELS_MAX)
		forest.levels = page->width / 6 > 0 ? page->width / 6 : 1;
	bool done = read_processes(&forest, list, &reader->missing) && link_all(&forest);
	if (done && page != NULL) {
		for (size_t i = 0; i < forest.count; i++)
			forest.list[i].line = read_command_line(forest.list[i].pid,
								forest.list[i].command);
		measure(&forest);
		draw_title(page, name, &forest, count, pid, age);
		draw_table(page, &forest);
		draw_notes(page, &forest, truncated ? count : 0);
	}
	for (size_t i = 0; forest.list != NULL && i < forest.count; i++)
		free(forest.list[i].line);
	free(forest.list);
	return done;
}
