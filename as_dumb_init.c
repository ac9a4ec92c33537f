/*
 * As dumb-init 1.2.5 (see dumb-init(1)).
 *
 * Promises: its options, variables, statuses and lines. What it leaves, at its end or
 * because it signals a group and no more, is ended here: by the signal that it sends to
 * the group, and SIGKILL.
 */
#include "names.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define PREFIX	       "[dumb-init] "
#define REWRITABLE_MAX 31 /* signals above are passed on as they are */

enum { STATUS_USAGE = 1, STATUS_EXEC_FAILED = 2 };

static const char version[] = "dumb-init v1.2.5 (treewrap " VERSION ")\n";

static const char usage[] =
	"Usage: %s [option] command [[arg] ...]\n"
	"treewrap in dumb-init's place: runs the command, passes signals on to its\n"
	"process group, and when it returns no process that came out of it is left.\n"
	"\n"
	"  -c, --single-child   no session for the command; signals go to it alone\n"
	"  -r, --rewrite s:r    pass on signal r in place of s (numbers), 0: nothing;\n"
	"                       repeatable\n"
	"  -v, --verbose        tell of signals and ended processes\n"
	"  -h, --help           print this and exit\n"
	"  -V, --version        print the version and exit\n"
	"\n"
	"DUMB_INIT_DEBUG=1 is --verbose, DUMB_INIT_SETSID=0 is --single-child.\n";

static const struct option long_options[] = {
	{"help", no_argument, NULL, 'h'},
	{"single-child", no_argument, NULL, 'c'},
	{"rewrite", required_argument, NULL, 'r'},
	{"verbose", no_argument, NULL, 'v'},
	{"version", no_argument, NULL, 'V'},
	{NULL, 0, NULL, 0},
};

static void add_rewrite(struct options *opt, const char *word)
{
	char *colon, *end = NULL;
	const long from = strtol(word, &colon, 10);
	const long to = *colon == ':' ? strtol(colon + 1, &end, 10) : -1;

	/* What follows the second number is nobody's business, in dumb-init too. */
	if (from >= 1 && from <= REWRITABLE_MAX && to >= 0 && to <= REWRITABLE_MAX &&
	    end != colon + 1) {
		opt->rewrite[from] = to == 0 ? REWRITE_DROP : (uint8_t)to;
		return;
	}
	dprintf(STDERR_FILENO,
		"Usage: -r option takes <signum>:<signum>, where <signum> is between 1 "
		"and %d.\n"
		"This option can be specified multiple times.\n"
		"Use --help for full usage.\n",
		REWRITABLE_MAX);
	exit(STATUS_USAGE);
}

static void take_option(struct options *opt, int option, char **argv)
{
	switch (option) {
	case 'h':
		dprintf(STDERR_FILENO, usage, argv[0]);
		exit(0);
	case 'V':
		dprintf(STDERR_FILENO, "%s", version);
		exit(0);
	case 'v':
		opt->as.verbose = true;
		break;
	case 'c':
		opt->process_group = GROUP_KEEP;
		break;
	case 'r':
		add_rewrite(opt, optarg);
		break;
	default:
		exit(STATUS_USAGE);
	}
}

static bool environment_says(const char *variable, const char *value)
{
	const char *found = secure_getenv(variable);

	return found != NULL && strcmp(found, value) == 0;
}

static void take_environment(struct options *opt)
{
	if (environment_says("DUMB_INIT_DEBUG", "1")) {
		opt->as.verbose = true;
		dprintf(STDERR_FILENO, PREFIX "Running in debug mode.\n");
	}
	if (environment_says("DUMB_INIT_SETSID", "0")) {
		opt->process_group = GROUP_KEEP;
		if (opt->as.verbose)
			dprintf(STDERR_FILENO, PREFIX "Not running in setsid mode.\n");
	}
}

/* What follows from the rest. */
static void conclude(struct options *opt)
{
	static const int by_terminal[] = {SIGTSTP, SIGTTOU, SIGTTIN};

	opt->ladder[0] = SIGTERM;
	opt->ladder_length = 1;
	if (opt->process_group == GROUP_KEEP)
		return;
	opt->forward_to = TO_GROUP;
	/* A session has nobody who could continue what its terminal has stopped: so the
	 * kernel lets the command ignore these. */
	for (size_t i = 0; i < sizeof(by_terminal) / sizeof(by_terminal[0]); i++)
		if (opt->rewrite[by_terminal[i]] == 0)
			opt->rewrite[by_terminal[i]] = SIGSTOP;
	/* What is left when the command ends gets its SIGTERM, or what is sent for it, at
	 * once. */
	opt->linger_ns = 0;
	if (opt->rewrite[SIGTERM] == REWRITE_DROP)
		opt->ladder_length = 0;
	else if (opt->rewrite[SIGTERM] != 0)
		opt->ladder[0] = opt->rewrite[SIGTERM];
}

static void parse(struct options *opt, int argc, char **argv)
{
	int option;

	names_begin(opt, &as_dumb_init, PREFIX);
	opt->process_group = GROUP_SESSION;
	while ((option = getopt_long(argc, argv, "+hvVcr:", long_options, NULL)) != -1)
		take_option(opt, option, argv);
	if (optind >= argc) {
		dprintf(STDERR_FILENO,
			"Usage: %s [option] program [args]\n"
			"Try %s --help for full usage.\n",
			argv[0], argv[0]);
		exit(STATUS_USAGE);
	}
	take_environment(opt);
	conclude(opt);
	opt->command = argv + optind;
	opt->name = argv[optind];
}

static void prepare(const struct options *opt, struct inherited *inherited,
		    struct status *status)
{
	names_reset(inherited, UINT64_MAX, UINT64_MAX);
	if (opt->process_group != GROUP_SESSION)
		return;
	/* The terminal is to be that of the command's session. If this one is ours,
	 * SIGHUP and SIGCONT go to our group, from ourselves: so we pass over them. */
	if (ioctl(STDIN_FILENO, TIOCNOTTY) < 0 && opt->as.verbose)
		say(status, "Unable to detach from controlling tty (errno=%d %s).", errno,
		    strerror(errno));
	if (!isatty(STDIN_FILENO) && opt->as.verbose)
		say(status, "Unable to attach to controlling tty (errno=%d %s).", errno,
		    strerror(errno));
}

static int cannot_run(const struct options *opt, const struct failure *failure,
		      struct status *status)
{
	say(status, "%s: %s", opt->name, strerror(failure->error));
	return STATUS_EXEC_FAILED;
}

static struct outcome outcome(const struct options *opt, const struct ending *ending,
			      bool pid_1)
{
	(void)opt, (void)pid_1;
	return (struct outcome){
		ending->signo != 0 ? 128 + ending->signo : ending->exit_code, 0};
}

/* SIGNO, and what became of it. */
static void tell_passed_on(const struct options *opt, struct status *status, int signo)
{
	const int rewritten = opt->rewrite[signo];
	const int sent = rewritten == REWRITE_DROP ? 0 : rewritten;

	if (rewritten != 0)
		say(status, "Translating signal %d to %d.", signo, sent);
	if (rewritten == REWRITE_DROP)
		say(status, "Not forwarding signal %d to children (ignored).", sent);
	else
		say(status, "Forwarded signal %d to children.", sent != 0 ? sent : signo);
}

static void tell(const struct options *opt, struct status *status, enum happening what,
		 int number, int how)
{
	if (!opt->as.verbose)
		return;
	switch (what) {
	case COMMAND_STARTED:
		say(status, "Child spawned with PID %d.", number);
		if (opt->process_group == GROUP_SESSION)
			say(status, "setsid complete.");
		break;
	case SIGNAL_RECEIVED:
		say(status, "Received signal %d.", number);
		tell_passed_on(opt, status, number);
		break;
	case CHILD_ENDED:
		say(status, "Received signal %d.", SIGCHLD);
		if (how >= 0)
			say(status, "A child with PID %d exited with exit status %d.",
			    number, how);
		else
			say(status, "A child with PID %d was terminated by signal %d.",
			    number, -how);
		break;
	case COMMAND_ENDED:
		tell_passed_on(opt, status, SIGTERM);
		say(status, "Child exited with status %d. Goodbye.",
		    how >= 0 ? how : 128 - how);
		break;
	case SIGNAL_SENT:
	case COMMAND_DUMPED:
		break;
	}
}

const struct guise as_dumb_init = {
	.name = "dumb-init",
	.parse = parse,
	.prepare = prepare,
	.cannot_run = cannot_run,
	.outcome = outcome,
	.tell = tell,
};
