/*
 * As timeout of GNU coreutils 9.1, and -f and -p as later ones have them.
 *
 * Promises: its options, durations, statuses and lines. When the command has ended, what
 * is left of it is ended too, in its process group or not: it has a moment to end by
 * itself, then it gets the same signal, then SIGKILL. (With --foreground timeout leaves
 * that alone on purpose; so do we if TREEWRAP_TIMEOUT_COMPAT=1 says so.)
 */
#include "clock.h"
#include "names.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <getopt.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define QUOTED_SIZE 512

static const char version[] = "timeout (treewrap " VERSION ", as GNU coreutils 9.1)\n";

static const char usage[] =
	"Usage: %s [OPTION]... DURATION COMMAND [ARG]...\n"
	"treewrap in the place of GNU timeout: runs COMMAND, stops it after DURATION, "
	"and\n"
	"when it returns no process that came out of COMMAND is left.\n"
	"\n"
	"  -k, --kill-after=DURATION  SIGKILL so long after the first signal\n"
	"  -s, --signal=SIGNAL        the first signal: a name or a number (TERM)\n"
	"  -f, --foreground           leave COMMAND in the caller's process group, "
	"where\n"
	"                             it can use the terminal; signals go to it alone\n"
	"  -p, --preserve-status      COMMAND's status after a timeout too\n"
	"  -v, --verbose              tell of every signal that is sent\n"
	"      --help                 print this and exit\n"
	"      --version              print the version and exit\n"
	"\n"
	"DURATION: a number, as 2, .5 or 1e3, with s (default), m, h or d; 0: never.\n"
	"Exit status: COMMAND's; 124 timeout, 125 timeout itself failed, 126 COMMAND\n"
	"cannot be run, 127 not found, 137 it took SIGKILL.\n";

enum { OPT_HELP = 256, OPT_VERSION };

static const struct option long_options[] = {
	{"kill-after", required_argument, NULL, 'k'},
	{"signal", required_argument, NULL, 's'},
	{"foreground", no_argument, NULL, 'f'},
	{"preserve-status", no_argument, NULL, 'p'},
	{"verbose", no_argument, NULL, 'v'},
	{"help", no_argument, NULL, OPT_HELP},
	{"version", no_argument, NULL, OPT_VERSION},
	{NULL, 0, NULL, 0},
};

/* ---- words ---- */

/* C in a string that is quoted. Returns what is written, of at most 4 characters. */
static size_t escape(unsigned char c, bool utf8, char *to)
{
	static const char letters[] = "abtnvfr"; /* from 7, the bell, to 13 */

	to[0] = '\\';
	to[1] = (char)c;
	if (c == '\\' || (c == '\'' && !utf8))
		return 2;
	if (c >= 7 && c <= 13) {
		to[1] = letters[c - 7];
		return 2;
	}
	if (c < 0x20 || c == 0x7f || (c >= 0x80 && !utf8)) {
		to[1] = (char)('0' + (c >> 6));
		to[2] = (char)('0' + (c >> 3 & 7));
		to[3] = (char)('0' + (c & 7));
		return 4;
	}
	to[0] = (char)c;
	return 1;
}

/* WORD in the quotes of the caller's locale, as coreutils puts it. */
static void quote(const char *word, char quoted[QUOTED_SIZE])
{
	/* If the locale is not there it stays "C". */
	setlocale(LC_CTYPE, "");
	const bool utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	size_t length = (size_t)snprintf(quoted, 8, "%s", utf8 ? "\u2018" : "'");

	/* Ends: with WORD; what does not fit is cut. */
	for (; *word != '\0' && length < QUOTED_SIZE - 8; word++)
		length += escape((unsigned char)*word, utf8, quoted + length);
	snprintf(quoted + length, 8, "%s", utf8 ? "\u2019" : "'");
}

_Noreturn static void bad_usage(const char *called)
{
	dprintf(STDERR_FILENO, "Try '%s --help' for more information.\n", called);
	exit(STATUS_FAILED);
}

/* WORD, quoted, between BEFORE and AFTER. */
_Noreturn static void bad_word(const char *called, const char *before, const char *word,
			       const char *after)
{
	char quoted[QUOTED_SIZE];

	quote(word, quoted);
	dprintf(STDERR_FILENO, "%s: %s%s%s\n", called, before, quoted, after);
	bad_usage(called);
}

/* In seconds; 0 if there is no such unit. */
static int unit_of(const char *word)
{
	switch (word[0] != '\0' && word[1] != '\0' ? '?' : word[0]) {
	case '\0':
	case 's':
		return 1;
	case 'm':
		return 60;
	case 'h':
		return 3600;
	case 'd':
		return 86400;
	default:
		return 0;
	}
}

static int digit_of(char c, int base)
{
	const int digit = c >= '0' && c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;

	return digit >= 0 && digit < base ? digit : base;
}

/* The digits and the point at *END, which is moved on. False if there is no digit. */
static bool take_digits(const char **end, int base, double *value, bool *is_zero)
{
	double place = 0; /* of the next digit; 0: the point has not come */
	bool found = false;

	*value = 0;
	*is_zero = true;
	/* Ends: with the digits. */
	for (;; (*end)++) {
		const int digit = digit_of(**end, base);
		if (**end == '.' && place == 0) {
			place = 1;
		} else if (digit < base) {
			found = true;
			*is_zero = *is_zero && digit == 0;
			place /= base;
			*value = place == 0 ? *value * base + digit
					    : *value + digit * place;
		} else {
			return found;
		}
	}
}

/* An exponent at *END, if there is one, for VALUE. */
static void take_exponent(const char **end, char letter, int base, double *value)
{
	const char *c = *end + 1;
	int exponent = 0;

	if ((**end | 0x20) != letter)
		return;
	const bool minus = *c == '-';
	c += *c == '-' || *c == '+';
	if (digit_of(*c, 10) == 10)
		return;
	for (; digit_of(*c, 10) < 10; c++)
		if (exponent < 100000)
			exponent = exponent * 10 + digit_of(*c, 10);
	/* Ends early where nothing changes any more. */
	for (; exponent > 0 && *value > 0 && *value <= DBL_MAX; exponent--)
		*value = minus ? *value / base : *value * base;
	*end = c;
}

/* As strtod(3) in the C locale, but that a number below 0 is none, and that one which is
 * too small is not 0. False if there is no number at *END. */
static bool take_number(const char **end, double *value)
{
	bool is_zero;

	while (isspace((unsigned char)**end))
		(*end)++;
	const bool minus = **end == '-';
	*end += **end == '-' || **end == '+';
	if (strncasecmp(*end, "inf", 3) == 0) {
		*end += strncasecmp(*end, "infinity", 8) == 0 ? 8 : 3;
		*value = HUGE_VAL;
		return !minus;
	}
	const char *hex = *end + 2;
	if ((*end)[0] == '0' && ((*end)[1] | 0x20) == 'x' &&
	    take_digits(&hex, 16, value, &is_zero)) {
		*end = hex;
		take_exponent(end, 'p', 2, value);
	} else if (take_digits(end, 10, value, &is_zero)) {
		take_exponent(end, 'e', 10, value);
	} else {
		return false;
	}
	if (*value == 0 && !is_zero)
		*value = DBL_MIN;
	return !minus || is_zero;
}

/* In nanoseconds, rounded up: too small is not 0, and too large is never. */
static int64_t duration(const char *called, const char *word)
{
	const char *end = word;
	double number;

	const bool is_number = take_number(&end, &number);
	const int unit = unit_of(end);
	if (!is_number || unit == 0)
		bad_word(called, "invalid time interval ", word, "");
	const double ns = number * unit * NS_PER_S;
	if (ns >= (double)NEVER)
		return NEVER;
	const int64_t whole = (int64_t)ns;
	return (double)whole < ns ? whole + 1 : whole;
}

/* 0 too, which only asks whether there is somebody. */
static int signal_of(const char *called, const char *word)
{
	int signo = signal_by_name(word);
	char *end;

	if (word[0] >= '0' && word[0] <= '9') {
		/* A shell's status of what a signal has ended means that signal. */
		errno = 0;
		const long number = strtol(word, &end, 10);
		signo = (int)(number >= 0xff ? number & 0xff : number & 0x7f);
		if (*end != '\0' || errno != 0 || number > INT32_MAX)
			signo = -1;
	} else if (strcasecmp(word, "EXIT") == 0) {
		return 0;
	} else if (signo == 0) {
		signo = -1;
	}
	/* The C library keeps two to itself. */
	if (signo < 0 || signo > SIGNAL_MAX || signo == 32 || signo == 33)
		bad_word(called, "", word, ": invalid signal");
	return signo;
}

static void put_signal_name(int signo, char name[SIGNAL_NAME_SIZE])
{
	char full[SIGNAL_NAME_SIZE];

	signal_name(signo, full);
	/* In the upper half real-time signals are counted from the end. */
	if (signo > 49 && signo < SIGNAL_MAX)
		snprintf(name, SIGNAL_NAME_SIZE, "RTMAX-%d", SIGNAL_MAX - signo);
	else
		snprintf(name, SIGNAL_NAME_SIZE, "%s",
			 signo == 0	       ? "EXIT"
			 : signo == SIGNAL_MAX ? "RTMAX"
					       : full + strlen("SIG"));
}

/* ---- the command line ---- */

static void print_and_exit(const char *called, const char *format)
{
	if (dprintf(STDOUT_FILENO, format, called) < 0) {
		dprintf(STDERR_FILENO, "%s: write error: %s\n", called, strerror(errno));
		exit(STATUS_FAILED);
	}
	exit(0);
}

static void take_option(struct options *opt, int option, const char *called)
{
	switch (option) {
	case 'k':
		opt->command_time_ns = duration(called, optarg);
		break;
	case 's':
		opt->ladder[0] = signal_of(called, optarg);
		break;
	case 'f':
		opt->stop_to = opt->forward_to = TO_MAIN;
		break;
	case 'p':
		opt->preserve_status = true;
		break;
	case 'v':
		opt->as.verbose = true;
		break;
	case OPT_HELP:
		print_and_exit(called, usage);
		break;
	case OPT_VERSION:
		print_and_exit(called, version);
		break;
	default:
		bad_usage(called);
	}
}

/* What follows from the rest. */
static void conclude(struct options *opt)
{
	static const int asks[] = {SIGINT, SIGQUIT, SIGHUP, SIGTERM};
	const char *compatible = secure_getenv("TREEWRAP_TIMEOUT_COMPAT");
	const int signo = opt->ladder[0];

	if (opt->command_time_ns == 0)
		opt->command_time_ns = NEVER;
	opt->ladder_length = signo == SIGKILL ? 0 : 1;
	/* The signal that its own clock sends to timeout; and those that it takes. */
	opt->stop_on = signal_bit(SIGALRM);
	for (size_t i = 0; i < sizeof(asks) / sizeof(asks[0]); i++)
		opt->ask_to_end |= signal_bit(asks[i]);
	if (signo != 0)
		opt->ask_to_end |= signal_bit(signo);
	if (opt->stop_to == TO_MAIN && compatible != NULL &&
	    strcmp(compatible, "1") == 0 && getpid() != 1)
		opt->leftovers = LEFTOVERS_LEAVE;
}

static void parse(struct options *opt, int argc, char **argv)
{
	const char *called = argv[0];
	static char prefix[QUOTED_SIZE];
	static char quoted[QUOTED_SIZE];
	int option;

	snprintf(prefix, sizeof(prefix), "%s: ", called);
	names_begin(opt, &as_timeout, prefix);
	opt->ladder[0] = SIGTERM;
	opt->process_group = GROUP_KEEP;
	opt->stop_to = opt->forward_to = TO_SHIM_GROUP;
	while ((option = getopt_long(argc, argv, "+k:s:fpv", long_options, NULL)) != -1)
		take_option(opt, option, called);
	if (argc - optind < 2)
		bad_usage(called);
	opt->timeout_ns = duration(called, argv[optind++]);
	opt->command = argv + optind;
	opt->name = argv[optind];
	if (opt->as.verbose)
		quote(opt->name, quoted);
	opt->as.quoted = quoted;
	conclude(opt);
}

/* ---- the run ---- */

static void prepare(const struct options *opt, struct inherited *inherited,
		    struct status *status)
{
	(void)status;
	/* It handles these, so that the exec gives them their default action. */
	names_reset(inherited,
		    opt->ask_to_end | opt->stop_on | signal_bit(SIGCHLD) |
			    signal_bit(SIGTTIN) | signal_bit(SIGTTOU),
		    signal_bit(SIGCHLD));
	/* The command joins us. A session's leader, who may not, leads a group. */
	if (opt->stop_to == TO_SHIM_GROUP)
		setpgid(0, 0);
}

static int cannot_run(const struct options *opt, const struct failure *failure,
		      struct status *status)
{
	char quoted[QUOTED_SIZE];

	quote(opt->name, quoted);
	say(status, "failed to run command %s: %s", quoted, strerror(failure->error));
	return failure->error == ENOENT ? STATUS_NOT_FOUND : STATUS_CANNOT;
}

static struct outcome outcome(const struct options *opt, const struct ending *ending,
			      bool pid_1)
{
	const int signo = ending->signo;
	const int own = signo != 0 ? 128 + signo : ending->exit_code;

	if (!ending->was_asked)
		return (struct outcome){own, pid_1 ? 0 : signo};
	/* timeout's own SIGKILL is for its group, and that is where it is itself. */
	if (signo == SIGKILL)
		return (struct outcome){own, opt->stop_to == TO_SHIM_GROUP && !pid_1 &&
							     ending->killed > 0
						     ? SIGKILL
						     : 0};
	return (struct outcome){opt->preserve_status ? own : STATUS_TIMEOUT, 0};
}

static void tell_sent(const struct options *opt, struct status *status, int signo)
{
	char name[SIGNAL_NAME_SIZE];

	put_signal_name(signo, name);
	say(status, "sending signal %s to command %s", name, opt->as.quoted);
}

static void tell(const struct options *opt, struct status *status, enum happening what,
		 int number, int how)
{
	(void)how;
	switch (what) {
	case SIGNAL_RECEIVED:
		if (opt->as.verbose && (opt->ask_to_end & signal_bit(number)) != 0)
			tell_sent(opt, status, number);
		break;
	case SIGNAL_SENT:
		if (opt->as.verbose)
			tell_sent(opt, status, number);
		break;
	case COMMAND_DUMPED:
		say(status, "the monitored command dumped core");
		break;
	case COMMAND_STARTED:
	case CHILD_ENDED:
	case COMMAND_ENDED:
		break;
	}
}

const struct guise as_timeout = {
	.name = "timeout",
	.parse = parse,
	.prepare = prepare,
	.cannot_run = cannot_run,
	.outcome = outcome,
	.tell = tell,
};
