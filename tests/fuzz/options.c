/*
 * The command line, its words divided by NUL bytes: every number that is accepted is
 * within its bounds, the command lies inside argv, and reading it again gives the same.
 *
 * with: options.c bad_option.c signals.c runtime.c descriptor.c rights.c -Wl,--wrap=exit
 */
#include "options.h"
#include "status.h"

#include <fcntl.h>
#include <getopt.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_MAX  512
#define WORDS_MAX 32

int LLVMFuzzerInitialize(int *argc, char ***argv);
/* What --user finds is kept to the end of the process, which here is none. */
const char *__lsan_default_options(void);
const char *__lsan_default_options(void)
{
	return "detect_leaks=0";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
_Noreturn void __real_exit(int status);
_Noreturn void __wrap_exit(int status);

static jmp_buf end;
static bool parsing;

void die(const char *format, ...)
{
	(void)format;
	longjmp(end, 1);
}

void __wrap_exit(int status)
{
	if (!parsing)
		__real_exit(status);
	/* --help and the like: nothing else may end it. */
	if (status != 0)
		abort();
	longjmp(end, 1);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	const int null = open("/dev/null", O_WRONLY);
	return dup2(null, STDOUT_FILENO) < 0;
}

/* A command line of its own, for it is written to. */
struct line {
	char text[TEXT_MAX + 1];
	char *argv[WORDS_MAX + 1];
	int argc;
};

static void divide(struct line *line, const uint8_t *data, size_t size)
{
	memcpy(line->text, data, size);
	line->text[size] = '\0';
	line->argv[0] = (char[]){"treewrap"};
	line->argc = 1;
	for (size_t at = 0; at < size && line->argc < WORDS_MAX;
	     at += strlen(line->text + at) + 1)
		line->argv[line->argc++] = line->text + at;
	line->argv[line->argc] = NULL;
}

static bool parse(struct options *opt, struct line *line)
{
	/* Else it would go on where it stopped. */
	optind = 0;
	parsing = true;
	const bool accepted = setjmp(end) == 0;
	if (accepted)
		options_parse(opt, line->argc, line->argv);
	parsing = false;
	return accepted;
}

static void check(const struct options *opt, const struct line *line)
{
	if (opt->timeout_ns < 0 || opt->kill_after_ns < 0 || opt->verify_for_ns < 0 ||
	    opt->linger_ns < 0 || opt->ladder_length > LADDER_MAX ||
	    opt->watch_fds > WATCH_MAX || opt->watch_pids > WATCH_MAX)
		abort();
	for (unsigned i = 0; i < opt->ladder_length; i++)
		if (opt->ladder[i] < 1 || opt->ladder[i] > SIGNAL_MAX)
			abort();
	for (unsigned i = 0; i < opt->watch_pids; i++)
		if (opt->watch_pid[i] < 1)
			abort();
	if ((opt->stop_on & (UINT64_C(1) << 8 | UINT64_C(1) << 18 | UINT64_C(1) << 16)) !=
	    0)
		abort();
	if (opt->command <= line->argv || opt->command >= line->argv + line->argc ||
	    opt->name != opt->command[0] || line->argv[line->argc] != NULL)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct line first, second;
	static struct options one, two;

	if (size > TEXT_MAX)
		return 0;
	divide(&first, data, size);
	divide(&second, data, size);
	memset(&one, 0, sizeof(one));
	memset(&two, 0, sizeof(two));
	const bool accepted = parse(&one, &first);
	if (parse(&two, &second) != accepted)
		abort();
	if (!accepted)
		return 0;
	check(&one, &first);
	if (one.command - first.argv != two.command - second.argv ||
	    one.timeout_ns != two.timeout_ns || one.stop_on != two.stop_on ||
	    memcmp(one.ladder, two.ladder, sizeof(one.ladder)) != 0 ||
	    memcmp(one.rewrite, two.rewrite, sizeof(one.rewrite)) != 0)
		abort();
	return 0;
}
