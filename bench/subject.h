#ifndef SUBJECT_H
#define SUBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* What can be measured of a subject. */
enum {
	ADOPTS = 1,   /* is a subreaper, where it is not process 1 */
	INIT = 2,     /* is meant for process 1 */
	FORWARDS = 4, /* passes each signal on, as often as it comes */
};

/* Something that runs a command: treewrap, a peer, or nothing at all. */
struct subject {
	const char *name;
	const char *file; /* NULL: the command alone */
	const char *option[6];
	unsigned can;
};

#define SUBJECTS 10
extern const struct subject subjects[SUBJECTS];

/* Those of SUBJECTS that have a name of their own in the measurements. */
enum { BARE, TREEWRAP_STATIC, TREEWRAP, TINI_STATIC, TINI };

bool subject_is_here(const struct subject *subject);

/* A command line that grows. */
struct words {
	const char *word[40];
	size_t count;
};

void words_add(struct words *words, const char *const *more);

/* The subject as it is started, options included, but for the command. */
void words_subject(struct words *words, const struct subject *subject);

struct child {
	pid_t pid;
	int output; /* the reading end of its standard output */
};

/* Descriptors for children; what else is open must be closed at exec. */
enum {
	LIFELINE = 3, /* a pipe that does not hang up while the measuring process lives */
	ERRORS = 4,
};

/* Opens these descriptors; ERRORS is the end of a file. Before anything else is opened.
 */
void prepare(const char *errors);

/* Starts it in a session of its own. Its standard input is a second LIFELINE. */
struct child child_start(const struct words *words);

/* Waits for COUNT bytes of its output; dies where there are less. */
void child_says(const struct child *child, size_t count);

/* Until it has ended; its exit status, 128+N after a signal. */
int child_wait(const struct child *child);

/* The same; FAULTS gets the page faults of it and of all that it has waited for. */
int child_wait_counting(const struct child *child, double *faults);

/* The beginning of a file, as a string. False: there is none. */
bool read_beginning(const char *path, char *text, size_t room);

/* The first child of PID's, once it is there. Dies after a while. */
pid_t child_of(pid_t pid);

/* Microseconds of CLOCK_MONOTONIC. */
double now(void);

void pause_for(double microseconds);

/* Real-time priority for the measurer, and not for what it starts: where all is busy it
 * would else measure its own waiting. False: there is no right to it. */
bool take_priority(void);

/* Says what failed, on what and why, and exits with 1: because of errno, or of ERROR. */
__attribute__((noreturn)) void die_of(int error, const char *what, const char *on);
__attribute__((noreturn)) void die(const char *what, const char *on);

#endif
