/*
 * Promises: a name that is not in the table is treewrap's own; nothing but the name
 * decides which command line is read.
 */
#include "names.h"
#include "clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Those whose command line treewrap's own is: docker asks them for their version, and
 * takes what begins like this, with a commit behind it. */
static const char *const inits[] = {"docker-init", "catatonit", "tini"};
static const char init_version[] = "tini version " VERSION "_treewrap - git.tw\n";

static const struct guise *const guises[] = {&as_timeout, &as_dumb_init};

static bool is_init(const char *name)
{
	for (size_t i = 0; i < sizeof(inits) / sizeof(inits[0]); i++)
		if (strcmp(name, inits[i]) == 0)
			return true;
	return false;
}

/* NAME's command line. False if it is nobody's. */
static bool parse_as(struct options *opt, const char *name, int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(guises) / sizeof(guises[0]); i++) {
		if (strcmp(name, guises[i]->name) == 0) {
			guises[i]->parse(opt, argc, argv);
			return true;
		}
	}
	if (!is_init(name))
		return false;
	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		if (fputs(init_version, stdout) == EOF || fflush(stdout) == EOF)
			die("cannot write to standard output: %s", strerror(errno));
		exit(0);
	}
	options_parse(opt, argc, argv);
	return true;
}

void names_parse(struct options *opt, int argc, char **argv)
{
	const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
	const char *name = slash != NULL ? slash + 1 : argc > 0 ? argv[0] : "";

	if (parse_as(opt, name, argc, argv))
		return;
	int skip = 0;
	if (argc > 1 && strcmp(argv[1], "--as") == 0) {
		skip = 2;
		if (argc == 2)
			die("--as needs a value");
	} else if (argc > 1 && strncmp(argv[1], "--as=", 5) == 0) {
		skip = 1;
		argv[1] += 5;
	}
	if (skip == 0)
		options_parse(opt, argc, argv);
	else if (!parse_as(opt, argv[skip], argc - skip, argv + skip))
		die("--as: '%s' is not a name that treewrap knows (see treewrap(1))",
		    argv[skip]);
}

void names_begin(struct options *opt, const struct guise *guise, const char *prefix)
{
	options_default(opt);
	opt->as.guise = guise;
	opt->as.prefix = prefix;
}

void names_reset(struct inherited *inherited, uint64_t ignored, uint64_t blocked)
{
	struct sigaction action;

	for (int signo = 1; signo < 32; signo++) {
		if ((ignored & signal_bit(signo)) == 0 ||
		    sigaction(signo, NULL, &action) < 0 || action.sa_handler != SIG_IGN)
			continue;
		action.sa_handler = SIG_DFL;
		sigaction(signo, &action, NULL);
	}
	if ((ignored & signal_bit(SIGCHLD)) != 0)
		inherited->chld_ignored = false;
	inherited->mask &= ~blocked;
}
