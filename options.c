/*
 * Promises: a word that is not understood is named and nothing is run; there is
 * no guessing and no partial reading ("5 s", "1e3" and "0x10" are errors).
 */
#include "options.h"
#include "bad_option.h"
#include "clock.h"
#include "runtime.h"
#include "status.h"
#include "version.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const char usage[] =
	"usage: treewrap [OPTION]... [--] COMMAND [ARG]...\n"
	"Run COMMAND. When treewrap returns, no process that came out of it is left.\n"
	"\n"
	"What stops the tree:\n"
	"  -t, --timeout DURATION     stop it after DURATION (status 124)\n"
	"      --watch-stdin          ... when standard input hangs up (status 129)\n"
	"      --watch-fd FD          ... when the inherited descriptor FD hangs up\n"
	"      --watch-parent         ... when the process that started treewrap ends\n"
	"      --watch-pid PID        ... when process PID ends\n"
	"      --stop-on SIGNAL,...   ... when treewrap receives one of these signals\n"
	"      --leftovers stop|wait|leave|fail\n"
	"                             what to do with processes that outlive COMMAND\n"
	"                             (stop; fail: stop them, and status 123 for 0)\n"
	"      --linger DURATION      time for leftovers to end by themselves (200ms)\n"
	"\n"
	"How it is stopped:\n"
	"      --signal SIGNAL        polite signal, repeatable (TERM)\n"
	"  -k, --kill-after DURATION  time for each polite signal to work, 0: none is\n"
	"                             sent; then SIGKILL (5s)\n"
	"      --stop-scope tree|main send polite signals to all, or to COMMAND alone\n"
	"      --verify-for DURATION  time to wait for the end after SIGKILL (10s)\n"
	"      --contain tree|cgroup|pidns|auto\n"
	"                             what holds the tree together (tree); auto: a\n"
	"                             cgroup where one is delegated to us\n"
	"\n"
	"Signals that treewrap receives:\n"
	"      --forward-to main|group|tree\n"
	"                             who gets them (main); -g: group\n"
	"      --rewrite FROM:TO      forward TO in place of FROM, 0: nothing\n"
	"      --process-group new|keep\n"
	"                             COMMAND's process group (new without a terminal)\n"
	"\n"
	"      --id NAME|auto         give the run a name, by which treewrapctl(1) "
	"finds\n"
	"                             it; auto: one is made up\n"
	"\n"
	"COMMAND's rights:\n"
	"      --user USER[:GROUP]    run it as another user, with his groups\n"
	"      --caps LIST|none       with exactly these capabilities\n"
	"      --no-new-privs         with no way to more, by set-user-ID or the like\n"
	"      --confine-signals      it can signal nothing outside its tree (Linux "
	"6.12)\n"
	"\n"
	"Results:\n"
	"      --preserve-status      COMMAND's own status in place of 124 and 129\n"
	"  -e, --remap-exit STATUS    exit 0 in place of STATUS, repeatable\n"
	"      --status-fd FD         write events to FD, one JSON object a line\n"
	"  -v, --verbose              say what was stopped, why, and what was left\n"
	"  -h, --help    --version    -l, --license\n"
	"\n"
	"As tini has them:\n"
	"  -p SIGNAL                  act as if SIGNAL was received when the parent "
	"ends\n"
	"  -w                         tell of every orphan that is reaped\n"
	"  -s                         nothing: treewrap reaps orphans always\n"
	"  TINI_KILL_PROCESS_GROUP (as -g), TINI_VERBOSITY (2 and more: as -v)\n"
	"\n"
	"      --as NAME              (first:) be timeout, dumb-init or tini; the rest "
	"is\n"
	"                             its command line. A link of that name does the "
	"same\n"
	"\n"
	"DURATION: a number with ms, s (default), m, h or d; 0: never (for --kill-after\n"
	"and --linger: at once).\n"
	"Exit status: COMMAND's; 128+N if signal N ended it; 123 leftovers, 124 "
	"timeout,\n"
	"125 treewrap failed, 126 COMMAND cannot be run, 127 not found, 129 a watch.\n";

static const char license[] =
	"treewrap is free software under the MIT license: see LICENSE.\n";

enum long_only {
	OPT_SIGNAL = 256,
	OPT_STOP_SCOPE,
	OPT_VERIFY_FOR,
	OPT_LEFTOVERS,
	OPT_LINGER,
	OPT_WATCH_STDIN,
	OPT_WATCH_FD,
	OPT_WATCH_PARENT,
	OPT_WATCH_PID,
	OPT_STOP_ON,
	OPT_FORWARD_TO,
	OPT_REWRITE,
	OPT_PROCESS_GROUP,
	OPT_CONTAIN,
	OPT_ID,
	OPT_USER,
	OPT_CAPS,
	OPT_NO_NEW_PRIVS,
	OPT_CONFINE_SIGNALS,
	OPT_PRESERVE_STATUS,
	OPT_STATUS_FD,
	OPT_VERSION,
};

static const char short_options[] = "+:t:k:ge:p:vswlh";

static const struct option long_options[] = {
	{"timeout", required_argument, NULL, 't'},
	{"kill-after", required_argument, NULL, 'k'},
	{"signal", required_argument, NULL, OPT_SIGNAL},
	{"stop-scope", required_argument, NULL, OPT_STOP_SCOPE},
	{"verify-for", required_argument, NULL, OPT_VERIFY_FOR},
	{"leftovers", required_argument, NULL, OPT_LEFTOVERS},
	{"linger", required_argument, NULL, OPT_LINGER},
	{"watch-stdin", no_argument, NULL, OPT_WATCH_STDIN},
	{"watch-fd", required_argument, NULL, OPT_WATCH_FD},
	{"watch-parent", no_argument, NULL, OPT_WATCH_PARENT},
	{"watch-pid", required_argument, NULL, OPT_WATCH_PID},
	{"stop-on", required_argument, NULL, OPT_STOP_ON},
	{"forward-to", required_argument, NULL, OPT_FORWARD_TO},
	{"rewrite", required_argument, NULL, OPT_REWRITE},
	{"process-group", required_argument, NULL, OPT_PROCESS_GROUP},
	{"contain", required_argument, NULL, OPT_CONTAIN},
	{"id", required_argument, NULL, OPT_ID},
	{"user", required_argument, NULL, OPT_USER},
	{"caps", required_argument, NULL, OPT_CAPS},
	{"no-new-privs", no_argument, NULL, OPT_NO_NEW_PRIVS},
	{"confine-signals", no_argument, NULL, OPT_CONFINE_SIGNALS},
	{"preserve-status", no_argument, NULL, OPT_PRESERVE_STATUS},
	{"remap-exit", required_argument, NULL, 'e'},
	{"status-fd", required_argument, NULL, OPT_STATUS_FD},
	{"verbose", no_argument, NULL, 'v'},
	{"license", no_argument, NULL, 'l'},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, OPT_VERSION},
	{NULL, 0, NULL, 0},
};

/* What was seen, so that contradictions can be named. */
struct seen {
	bool group, forward_to, linger, watch_parent;
};

static void print_and_exit(const char *text)
{
	if (fputs(text, stdout) == EOF || fflush(stdout) == EOF)
		die("cannot write to standard output: %s", strerror(errno));
	exit(0);
}

/*
 * The digits of WORD up to END as a number of PER_UNIT parts of a nanosecond each;
 * false if it does not fit. The fraction is cut, not rounded, below a nanosecond.
 */
static bool scaled(const char *word, const char *end, int64_t unit_ns, int64_t *ns)
{
	int64_t whole = 0, fraction = 0, place = unit_ns;
	bool after_point = false, lost = false;

	for (const char *c = word; c < end; c++) {
		const int digit = *c - '0';
		if (*c == '.') {
			after_point = true;
		} else if (!after_point) {
			if (__builtin_mul_overflow(whole, 10, &whole) ||
			    __builtin_add_overflow(whole, digit, &whole))
				return false;
		} else {
			/* Units are 10^6 ns times 1, 10^3, and multiples of 60:
			 * the tenth of a place is whole until it is below 1 ns. */
			lost |= digit != 0 && place < 10;
			fraction += digit * (place / 10);
			place /= 10;
		}
	}
	if (__builtin_mul_overflow(whole, unit_ns, &whole) ||
	    __builtin_add_overflow(whole, fraction, &whole))
		return false;
	*ns = whole == 0 && lost ? 1 : whole;
	return true;
}

bool duration_parse(const char *word, int64_t *ns)
{
	static const struct {
		const char *name;
		int64_t ns;
	} units[] = {
		{"", NS_PER_S},	      {"ms", NS_PER_MS},      {"s", NS_PER_S},
		{"m", 60 * NS_PER_S}, {"h", 3600 * NS_PER_S}, {"d", 86400 * NS_PER_S},
	};
	const char *end = word;
	unsigned digits = 0, points = 0;

	for (; isdigit((unsigned char)*end) || *end == '.'; end++) {
		points += *end == '.';
		digits += *end != '.';
	}
	if (digits == 0 || points > 1)
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(end, units[i].name) == 0)
			return scaled(word, end, units[i].ns, ns);
	return false;
}

static int64_t duration(const char *option, const char *word)
{
	int64_t ns;

	if (!duration_parse(word, &ns))
		die("%s: '%s' is not a duration (like 30, 1.5m or 250ms)", option, word);
	return ns;
}

static int signal_of(const char *option, const char *word)
{
	const int signo = signal_by_name(word);

	if (signo == 0)
		die("%s: '%s' is not a signal", option, word);
	return signo;
}

/* A whole number from MIN to MAX, in decimal digits only. */
static int number(const char *option, const char *word, const char *what, int min,
		  int max)
{
	long value = 0;

	for (const char *c = word; *c != '\0'; c++) {
		if (!isdigit((unsigned char)*c) || value > max)
			die("%s: '%s' is not %s", option, word, what);
		value = value * 10 + (*c - '0');
	}
	if (*word == '\0' || value < min || value > max)
		die("%s: '%s' is not %s", option, word, what);
	return (int)value;
}

/* A descriptor that is open now; from here on the command does not inherit it. */
static int descriptor(const char *option, const char *word)
{
	const int fd = number(option, word, "a file descriptor", 0, INT32_MAX);
	const int flags = fcntl(fd, F_GETFD);

	if (flags < 0 || fcntl(fd, F_SETFD, flags | FD_CLOEXEC) < 0)
		die("%s: descriptor %s is not open", option, word);
	return fd;
}

static int writable_descriptor(const char *option, const char *word)
{
	const int fd = descriptor(option, word);

	if ((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY)
		die("%s: descriptor %s is open for reading only", option, word);
	return fd;
}

/* The place of WORD among the COUNT words of CHOICES. */
static int choice(const char *option, const char *word, const char *const choices[],
		  int count)
{
	for (int i = 0; i < count; i++)
		if (strcmp(word, choices[i]) == 0)
			return i;
	die("%s: '%s' is not one of its values (see treewrap --help)", option, word);
}

static void add_rewrite(struct options *opt, char *word)
{
	char *colon = strchr(word, ':');

	if (colon == NULL)
		die("--rewrite: '%s' is not FROM:TO", word);
	/* cppcheck-suppress nullPointerRedundantCheck ; die() does not return */
	*colon = '\0';
	const int from = signal_of("--rewrite", word);
	if (from == SIGKILL || from == SIGSTOP || from == SIGCHLD)
		die("--rewrite: '%s' is never forwarded", word);
	opt->rewrite[from] = strcmp(colon + 1, "0") == 0
				     ? REWRITE_DROP
				     : (uint8_t)signal_of("--rewrite", colon + 1);
}

static void add_stop_on(struct options *opt, char *list)
{
	char *rest = list;

	/* Ends: every turn takes a word off REST. */
	for (char *word; (word = strsep(&rest, ",")) != NULL;) {
		const int signo = signal_of("--stop-on", word);
		if (signo == SIGKILL || signo == SIGSTOP || signo == SIGCHLD)
			die("--stop-on: '%s' cannot be waited for", word);
		opt->stop_on |= UINT64_C(1) << (signo - 1);
	}
}

static void add_signal(struct options *opt, const char *word)
{
	if (opt->ladder_length == LADDER_MAX)
		die("--signal: '%s' is one too many (at most %d)", word, LADDER_MAX);
	opt->ladder[opt->ladder_length++] = signal_of("--signal", word);
}

static void add_watch_fd(struct options *opt, const char *word)
{
	if (opt->watch_fds == WATCH_MAX)
		die("--watch-fd: '%s' is one too many (at most %d)", word, WATCH_MAX);
	opt->watch_fd[opt->watch_fds++] = descriptor("--watch-fd", word);
}

static void add_watch_pid(struct options *opt, const char *word)
{
	if (opt->watch_pids == WATCH_MAX)
		die("--watch-pid: '%s' is one too many (at most %d)", word, WATCH_MAX);
	opt->watch_pid[opt->watch_pids++] =
		number("--watch-pid", word, "a process id", 1, INT32_MAX);
}

static void remap(struct options *opt, const char *word)
{
	const int status = number("--remap-exit", word, "a status from 0 to 255", 0, 255);

	opt->remap[status / 8] |= (uint8_t)(1 << status % 8);
}

static void set_id(struct options *opt, const char *word)
{
	if (!runtime_is_name(word))
		die("--id: '%s' is not a name (at most %d letters, digits, '.', '_' and "
		    "'-')",
		    word, RUNTIME_NAME_MAX);
	opt->id = word;
}

static void set_user(struct options *opt, const char *word)
{
	char why[512];

	if (opt->rights.user_word != NULL)
		die("--user: '%s' is one too many", word);
	if (!rights_find_user(&opt->rights, word, why, sizeof(why)))
		die("--user: %s", why);
}

static void set_caps(struct options *opt, char *list)
{
	const char *fault;

	if (opt->rights.caps)
		die("--caps: '%s' is one too many", list);
	if (!rights_parse_caps(&opt->rights, list, &fault))
		die("--caps: '%s' is not a capability", fault);
}

/* The options that are one word out of a few. */
static void choose(struct options *opt, struct seen *seen, int option, const char *word)
{
	static const char *const scopes[] = {"main", "group", "tree"};
	static const char *const stops[] = {"tree", "main"};
	static const char *const leftovers[] = {"stop", "wait", "leave", "fail"};
	static const char *const groups[] = {"new", "keep"};
	static const char *const contains[] = {"tree", "cgroup", "pidns", "auto"};

	switch (option) {
	case OPT_FORWARD_TO:
		opt->forward_to = (enum scope)choice("--forward-to", word, scopes, 3);
		seen->forward_to = true;
		break;
	case OPT_STOP_SCOPE:
		opt->stop_to =
			choice("--stop-scope", word, stops, 2) == 1 ? TO_MAIN : TO_TREE;
		break;
	case OPT_LEFTOVERS:
		opt->leftovers =
			(enum leftovers)choice("--leftovers", word, leftovers, 4);
		break;
	case OPT_CONTAIN:
		opt->contain = (enum contain)choice("--contain", word, contains, 4);
		break;
	case OPT_PROCESS_GROUP:
		opt->process_group = choice("--process-group", word, groups, 2) == 0
					     ? GROUP_NEW
					     : GROUP_KEEP;
		break;
	}
}

/* Options with a value that stands for itself. */
static void take_value(struct options *opt, struct seen *seen, int option, char *word)
{
	switch (option) {
	case 't':
		opt->timeout_ns = duration("--timeout", word);
		break;
	case 'k':
		opt->kill_after_ns = duration("--kill-after", word);
		break;
	case OPT_VERIFY_FOR:
		opt->verify_for_ns = duration("--verify-for", word);
		break;
	case OPT_LINGER:
		opt->linger_ns = duration("--linger", word);
		seen->linger = true;
		break;
	case OPT_SIGNAL:
		add_signal(opt, word);
		break;
	case OPT_STOP_ON:
		add_stop_on(opt, word);
		break;
	case OPT_REWRITE:
		add_rewrite(opt, word);
		break;
	case OPT_WATCH_FD:
		add_watch_fd(opt, word);
		break;
	case OPT_WATCH_PID:
		add_watch_pid(opt, word);
		break;
	case 'p':
		opt->watch_parent = true;
		opt->parent_signal = signal_of("-p", word);
		break;
	case OPT_STATUS_FD:
		opt->status_fd = writable_descriptor("--status-fd", word);
		break;
	case 'e':
		remap(opt, word);
		break;
	case OPT_ID:
		set_id(opt, word);
		break;
	case OPT_USER:
		set_user(opt, word);
		break;
	case OPT_CAPS:
		set_caps(opt, word);
		break;
	default:
		choose(opt, seen, option, word);
	}
}

static void take_flag(struct options *opt, struct seen *seen, int option)
{
	switch (option) {
	case 'g':
		opt->forward_to = TO_GROUP;
		seen->group = true;
		break;
	case 'v':
		opt->verbose++;
		break;
	case 'w':
		opt->tell_reaped = true;
		break;
	case OPT_PRESERVE_STATUS:
		opt->preserve_status = true;
		break;
	case OPT_NO_NEW_PRIVS:
		opt->rights.no_new_privs = true;
		break;
	case OPT_CONFINE_SIGNALS:
		opt->rights.confine_signals = true;
		break;
	case OPT_WATCH_STDIN:
		opt->watch_stdin = true;
		break;
	case OPT_WATCH_PARENT:
		opt->watch_parent = true;
		seen->watch_parent = true;
		break;
	case 'h':
		print_and_exit(usage);
		break;
	case OPT_VERSION:
		print_and_exit("treewrap " VERSION "\n");
		break;
	case 'l':
		print_and_exit(license);
		break;
	}
}

/* Names the word that getopt_long(3) stumbled over. */
_Noreturn static void bad_option(int complaint, char **argv)
{
	char text[1024];

	bad_option_text(complaint, argv, short_options, text, sizeof(text));
	die("%s", text);
}

/* tini's variables; not for a set-user-ID treewrap, which its caller must not steer. */
static void take_environment(struct options *opt, const struct seen *seen)
{
	const char *verbosity = secure_getenv("TINI_VERBOSITY");

	if (secure_getenv("TINI_KILL_PROCESS_GROUP") != NULL && !seen->forward_to)
		opt->forward_to = TO_GROUP;
	/* tini starts from 1, and tells what it does from 2. */
	if (verbosity != NULL && opt->verbose == 0 && strtol(verbosity, NULL, 10) > 1)
		opt->verbose = 1;
}

static void check(const struct options *opt, const struct seen *seen)
{
	if (seen->group && seen->forward_to && opt->forward_to != TO_GROUP)
		die("-g contradicts --forward-to");
	if (seen->linger && opt->leftovers == LEFTOVERS_WAIT)
		die("--linger contradicts --leftovers wait");
	if (seen->linger && opt->leftovers == LEFTOVERS_LEAVE)
		die("--linger contradicts --leftovers leave");
	if (seen->watch_parent && opt->parent_signal != 0)
		die("-p contradicts --watch-parent");
	if (opt->leftovers == LEFTOVERS_LEAVE && getpid() == 1)
		die("--leftovers leave: nothing outlives PID 1, which treewrap is here");
	if (opt->leftovers == LEFTOVERS_LEAVE && opt->contain == CONTAIN_PIDNS)
		die("--leftovers leave contradicts --contain pidns");
	if (opt->rights.confine_signals && !rights_can_confine())
		die("--confine-signals: this kernel cannot confine signals (Landlock's "
		    "ABI "
		    "6, Linux 6.12)");
	for (unsigned i = 0; i < opt->watch_fds; i++)
		if (opt->watch_fd[i] == opt->status_fd)
			die("--watch-fd and --status-fd: both name descriptor %d",
			    opt->status_fd);
	if (opt->watch_stdin && opt->status_fd == STDIN_FILENO)
		die("--watch-stdin and --status-fd: both name descriptor 0");
}

void options_default(struct options *opt)
{
	*opt = (struct options){
		.kill_after_ns = 5 * NS_PER_S,
		.verify_for_ns = 10 * NS_PER_S,
		.linger_ns = 200 * NS_PER_MS,
		.stop_to = TO_TREE,
		.status_fd = -1,
	};
}

void options_parse(struct options *opt, int argc, char **argv)
{
	struct seen seen = {0};
	int option;

	options_default(opt);
	opterr = 0;
	while ((option = getopt_long(argc, argv, short_options, long_options, NULL)) !=
	       -1) {
		if (option == '?' || option == ':')
			bad_option(option, argv);
		if (optarg != NULL)
			take_value(opt, &seen, option, optarg);
		else
			take_flag(opt, &seen, option);
	}
	if (optind >= argc)
		die("no command given (see treewrap --help)");
	if (opt->ladder_length == 0)
		opt->ladder[opt->ladder_length++] = SIGTERM;
	if (opt->kill_after_ns == 0)
		opt->ladder_length = 0;
	take_environment(opt, &seen);
	check(opt, &seen);
	opt->command = argv + optind;
	opt->name = argv[optind];
}
