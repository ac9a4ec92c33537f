/*
 * treewrap [OPTION]... [--] COMMAND [ARG]...
 *
 * Runs COMMAND. When treewrap returns, no process that came out of it is left.
 *
 *   caller ── shim ── reaper ── command ── ...
 *
 * The shim is what the caller started. It starts the reaper, passes on to it the signals
 * it gets, stops when the command has stopped, and exits as the command did. The reaper
 * does the work. Each guards the other: if the shim is killed the reaper sees the link
 * hang up and kills the tree; if the reaper is killed the kernel hands the tree to the
 * shim, which is a subreaper too, and the shim kills it by the same code. As PID 1 there
 * is one process, for if that dies the kernel kills all the rest. A process that had
 * children before it became treewrap gets a shim of its own, see relay.h.
 *
 * Exit status: the command's; 128+N if signal N ended it; 123 leftovers (--leftovers
 * fail); 124 timeout; 125 treewrap itself failed; 126, 127 the command cannot be run, is
 * not there; 129 a watch.
 */
#include "clock.h"
#include "descriptor.h"
#include "let_go.h"
#include "link.h"
#include "names.h"
#include "options.h"
#include "outcome.h"
#include "pidns.h"
#include "privs.h"
#include "reaper.h"
#include "relay.h"
#include "signals.h"
#include "status.h"
#include "tree.h"
#include "wait.h"
#include "watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The reaper's; its deepest call takes a tenth of it, half if cgroups are nested deeply.
 */
#define REAPER_STACK_SIZE (256 * 1024)
#define SHIM_STACK_SIZE	  (256 * 1024)

/* How often a signal that found the link full is tried again. */
#define RETRY_MS 10

struct shim {
	struct reaper_setup *setup;
	pid_t reaper;
	int link;
	int stopped_by; /* signal that stopped the command, until we have stopped too */
	int was_stopped_by; /* the same after that, until somebody continues us */
	unsigned stops;	    /* number of the last stop that we were told of */
	bool ended;	    /* the reaper has told the end, which is OUTCOME */
	struct outcome outcome;
	int64_t ready_at; /* see READY_NS; NEVER: it has been done */
	uint64_t missed;  /* signals that came to us before the reaper was born */
	bool holding;	  /* HELD found the link full */
	struct link_message held;
};

static bool is_pidns(const struct reaper_setup *setup)
{
	return setup->contain == CONTAIN_PIDNS;
}

_Noreturn static void exit_as(const struct outcome *outcome)
{
	if (outcome->die_of != 0)
		signals_die_of(outcome->die_of);
	/* Nothing is buffered, and what libc tidies up would take longer than all else.
	 */
	_exit(outcome->die_of != 0 ? 128 + outcome->die_of : outcome->status);
}

/* ---- the reaper's process ---- */

/* What be_reaper() gets. */
struct reaper_birth {
	struct reaper_setup *setup;
	int ends[2];	/* of the link: the shim's, the reaper's */
	bool with_user; /* in a user namespace of its own, as */
	uid_t user;
	gid_t group;
};

/* Process 1 of a PID namespace, not ready yet. Ends the process if it cannot be. */
static void enter_namespace(const struct reaper_birth *birth)
{
	struct reaper_setup *setup = birth->setup;
	char why[128];

	if (!pidns_enter(birth->with_user, birth->user, birth->group, why, sizeof(why))) {
		say(setup->status, "--contain pidns: %s", why);
		_exit(STATUS_FAILED);
	}
	if (setup->control != NULL)
		setup->control->nobody_is_root = birth->with_user;
	/* They are led from outside, and have no number here. */
	setup->shim_group = setup->session = 0;
	tree_open_inside(setup->tree);
}

/* Never returns: the reaper's end is how the shim learns of the outcome. */
static int be_reaper(void *argument)
{
	const struct reaper_birth *birth = argument;
	struct reaper_setup *setup = birth->setup;
	const int link = birth->ends[1];

	close(birth->ends[0]);
	setup->link = link;
	setup->status->link = link;
	/* One process keeps standard error: the shim. */
	setup->status->errors.fd = -1;
	const bool inside = is_pidns(setup);
	if (inside)
		enter_namespace(birth);
	/* A name of its own, so that what kills everything named treewrap does not kill
	 * both; a group of its own when the command has been born. Cannot fail. */
	prctl(PR_SET_NAME, "tree-reaper");
	/* Should we have been stopped when the shim dies, that wakes us. */
	prctl(PR_SET_PDEATHSIG, SIGCONT);
	/* (Process 1 is one, whatever the kernel.) */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 && !inside)
		_exit(STATUS_FAILED);
	const struct outcome outcome = reaper_run(setup);
	exit_as(&outcome);
}

/* ---- the shim's process ---- */

/* What the reaper has to tell. */
static void take_link(struct shim *shim)
{
	struct link_message message;

	/* Ends: the reaper sends a bounded number of messages for each event. */
	while (link_receive(shim->link, &message)) {
		switch (message.type) {
		case LINK_STOPPED:
			shim->stops = message.stop.number;
			/* This one the reaper sends itself where it can. */
			if (message.stop.signo != SIGSTOP || is_pidns(shim->setup))
				shim->stopped_by = message.stop.signo;
			break;
		case LINK_CONTINUED:
			shim->stopped_by = shim->was_stopped_by = 0;
			break;
		case LINK_ENDED:
			shim->ended = true;
			shim->outcome = message.outcome;
			break;
		case LINK_SAY:
			say_for(shim->setup->status, message.text);
			break;
		case LINK_SIGNAL:
		case LINK_CONTINUE:
			break;
		}
	}
}

static void pass_on(struct shim *shim)
{
	if (shim->holding)
		shim->holding = !link_send(shim->link, &shim->held);
}

/*
 * In our group, which is orphaned, Ctrl-Z does nothing, and nobody is there to continue
 * what it has stopped all the same: before the reaper had left us, or in another group.
 */
static void continue_command(struct shim *shim)
{
	shim->held =
		(struct link_message){.type = LINK_CONTINUE, .stop.number = shim->stops};
	shim->holding = true;
	pass_on(shim);
}

/*
 * The command has stopped: so do we, so that the shell sees its job stopped. A SIGCONT
 * that comes between the two steps, the one that the reaper's death sends included, takes
 * back the pending stop signal; one that came before has left its trace on the link or in
 * the reaper's state, which are looked at between. Runs on when we are continued.
 */
static void stop_too(struct shim *shim)
{
	/* (What cannot be blocked could not be taken back.) */
	const int signo = shim->stopped_by == SIGSTOP ? SIGTSTP : shim->stopped_by;
	siginfo_t info = {.si_pid = 0};

	signals_stop_begin(signo);
	take_link(shim);
	const bool reaper_lives = waitid(P_PID, (id_t)shim->reaper, &info,
					 WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 &&
				  info.si_pid == 0;
	const bool stopped =
		signals_stop_end(signo, shim->stopped_by != 0 && reaper_lives);
	if (!stopped && shim->stopped_by == SIGTSTP) {
		if (shim->holding)
			return; /* the link is full: once more when it is not */
		continue_command(shim);
	}
	shim->was_stopped_by = shim->stopped_by;
	shim->stopped_by = 0;
}

/* Ends: stops at the first signal that the link does not take. */
static void take_signals(struct shim *shim)
{
	struct arrived arrived;

	while (!shim->holding && signals_read(shim->setup->signals, &arrived)) {
		if (arrived.signo == SIGCHLD)
			continue;
		/* The reaper's, or its death's or the link's, to make sure that we run.
		 */
		if (arrived.signo == SIGCONT &&
		    (arrived.sender == shim->reaper || arrived.code == POLL_HUP))
			continue;
		/* We run because of a message; if that did not say that the command does
		 * so too, back to where we were. */
		if (arrived.signo == SIGCONT && arrived.code == POLL_IN) {
			if (shim->stopped_by == 0)
				shim->stopped_by = shim->was_stopped_by;
			continue;
		}
		if (arrived.signo == SIGCONT)
			shim->was_stopped_by = 0;
		/* It has taken back the SIGCONT by which we run, and the command does
		 * not.
		 */
		if (signals_stops(arrived.signo) && shim->stopped_by == 0)
			shim->stopped_by = shim->was_stopped_by;
		arrived.stops = shim->stops;
		arrived.missed = signals_was_pending(&shim->missed, &arrived);
		shim->held =
			(struct link_message){.type = LINK_SIGNAL, .signal = arrived};
		shim->holding = true;
		pass_on(shim);
	}
}

/*
 * True if the reaper has ended, with INFO saying how. One that has been stopped is
 * continued: nobody but an enemy stops it, and a stopped one keeps no deadline. Its
 * number is its own, for it has not been reaped.
 */
static bool reaper_has_ended(const struct shim *shim, siginfo_t *info)
{
	info->si_pid = 0;
	/* Fails only if we have no such child, which is as good as ended. */
	if (waitid(P_PID, (id_t)shim->reaper, info,
		   WEXITED | WSTOPPED | WNOHANG | __WALL) < 0)
		return true;
	if (info->si_pid == 0)
		return false;
	if (info->si_code != CLD_STOPPED)
		return true;
	kill(shim->reaper, SIGCONT);
	return false;
}

/*
 * The reaper has hung up: its death itself is a moment away. But as process 1 of a PID
 * namespace it has to wait for all that are in it, and there may be some that cannot die.
 * (Whoever takes over from it waits on.)
 */
static bool is_dead_soon(struct shim *shim)
{
	siginfo_t info = {.si_pid = 0};

	if (!is_pidns(shim->setup)) {
		waitid(P_PID, (id_t)shim->reaper, &info, WEXITED | WNOWAIT | __WALL);
		return true;
	}
	const int64_t limit = clock_after(clock_now_ns(), NS_PER_S);
	/* Ends: at the limit. */
	while (info.si_pid == 0 && clock_now_ns() < limit) {
		poll(NULL, 0, 1);
		if (waitid(P_PID, (id_t)shim->reaper, &info,
			   WEXITED | WNOHANG | WNOWAIT | __WALL) < 0)
			return true;
	}
	return info.si_pid != 0;
}

/* In nanoseconds. A signal that is being held blocks those behind it, SIGCHLD too. */
static int64_t patience(const struct shim *shim)
{
	if (shim->holding)
		return RETRY_MS * NS_PER_MS;
	if (shim->setup->signals == SIGNALS_UNPOLLED)
		return SIGNALS_LOOK_MS * NS_PER_MS;
	return shim->ready_at == NEVER ? NEVER : READY_NS;
}

/* Waits for the reaper's end. Ends with it: its death is a SIGCONT, and hangs up the
 * link. */
static void guard(struct shim *shim, siginfo_t *info)
{
	do {
		struct pollfd fds[] = {
			{.fd = shim->setup->signals, .events = POLLIN},
			{.fd = shim->link, .events = POLLIN},
		};
		wait_for(-1, fds, 2, patience(shim));
		if (clock_now_ns() >= shim->ready_at) {
			shim->ready_at = NEVER;
			tree_open(shim->setup->tree);
		}
		pass_on(shim);
		/* First what the reaper has said: a SIGCONT is meant for the last stop.
		 */
		take_link(shim);
		take_signals(shim);
		if (shim->stopped_by != 0)
			stop_too(shim);
		if ((fds[1].revents & (POLLHUP | POLLERR)) != 0 && !is_dead_soon(shim))
			break;
	} while (!reaper_has_ended(shim, info));
	take_link(shim);
}

/* Undoes what contain() and give_name() have made outside of this process. */
static void take_back(const struct reaper_setup *setup)
{
	if (setup->cgroup != NULL)
		cgroup_remove(setup->cgroup);
	control_remove(setup->control);
}

/* The reaper has ended: by itself as the outcome says, or by force. */
static struct outcome outcome_of_reaper(struct shim *shim, const siginfo_t *info)
{
	struct reaper_setup *setup = shim->setup;
	char name[SIGNAL_NAME_SIZE];

	if (shim->ended) {
		/* It may have been killed before the last of all. (Not otherwise: another
		 * run may have the name by now.) */
		if (info->si_pid != 0 && info->si_code != CLD_EXITED &&
		    info->si_status == SIGKILL)
			control_remove(setup->control);
		return shim->outcome;
	}
	/* Dead, or, in a PID namespace that cannot end, as good as that. */
	const bool is_dead = info->si_pid != 0;
	if (is_dead && info->si_code == CLD_EXITED) {
		/* Nothing has been run, and nothing been undone. */
		take_back(setup);
		return (struct outcome){info->si_status, 0};
	}
	/* It blocks all signals: only itself can have ended it by one of these two. */
	if (is_dead && (info->si_status == SIGINT || info->si_status == SIGQUIT))
		return (struct outcome){128 + info->si_status, info->si_status};
	setup->link = -1;
	bool all_ended;
	const struct outcome outcome = reaper_take_over(setup, &all_ended);
	signal_name(is_dead ? info->si_status : SIGKILL, name);
	say(setup->status, "the reaper was killed by %s; what it left has %sbeen ended",
	    name, all_ended ? "" : "not ");
	return outcome;
}

/* From its own PID namespace the reaper cannot signal us: what it says on the link does.
 */
static void be_woken_by(int link)
{
	/* If one of these failed, we would be woken by the reaper's end alone. */
	fcntl(link, F_SETOWN, getpid());
	fcntl(link, F_SETSIG, SIGCONT);
	fcntl(link, F_SETFL, fcntl(link, F_GETFL) | O_ASYNC);
}

/*
 * What holds the tree together: what the options ask for, or can be had. Late, for what
 * fails after it has to take it back.
 */
static void contain(struct reaper_setup *setup)
{
	static struct cgroup cgroup;
	const struct options *opt = setup->opt;
	char why[256];

	const bool may_override = setup->privs->override;

	/* Of use for a cgroup alone. */
	setup->privs->override = false;
	if (opt->contain != CONTAIN_CGROUP &&
	    (opt->contain != CONTAIN_AUTO || is_pidns(setup)))
		return;
	if (cgroup_make(&cgroup, opt->contain == CONTAIN_AUTO, why, sizeof(why))) {
		setup->privs->override = may_override;
		setup->contain = CONTAIN_CGROUP;
		setup->cgroup = &cgroup;
		setup->tree->cgroup = &cgroup;
	} else if (opt->contain == CONTAIN_CGROUP) {
		die("--contain cgroup: %s; --contain tree needs nothing", why);
	} else {
		say_more(setup->status, "no cgroup of our own: %s", why);
	}
}

/* For a socket and its clients, to the end. What is never written to takes no memory. */
static struct control *make_room(const struct reaper_setup *setup)
{
	struct control *control = calloc(1, sizeof(*control));

	if (control != NULL)
		return control;
	take_back(setup);
	die("--id: %s", strerror(errno));
}

/* The run gets its name, and the command an environment that tells it. */
static void give_name(struct reaper_setup *setup)
{
	const struct options *opt = setup->opt;
	char why[RUNTIME_PATH_SIZE + 128];

	if (opt->id == NULL)
		return;
	struct control *control = make_room(setup);
	if (!control_open(control, opt->id, opt->name, why, sizeof(why))) {
		take_back(setup);
		die("--id: %s", why);
	}
	setup->control = control;
	if (setenv("TREEWRAP_ID", control->name, 1) < 0) {
		take_back(setup);
		die("--id: %s", strerror(errno));
	}
}

/*
 * A fork, but its end sends us SIGCONT and not SIGCHLD: should we have been stopped
 * (Ctrl-Z, say), it wakes us, to end the tree or to tell the caller.
 */
static pid_t start_reaper(struct reaper_birth *birth)
{
	static char stack[REAPER_STACK_SIZE] __attribute__((aligned(16)));
	char *const top = stack + sizeof(stack);
	pid_t reaper = -1;

	if (!is_pidns(birth->setup)) {
		reaper = clone(be_reaper, top, SIGCONT, birth);
		if (reaper >= 0)
			return reaper;
		const int error = errno;
		take_back(birth->setup);
		die("cannot fork: %s", strerror(error));
	}
	reaper = clone(be_reaper, top, SIGCONT | pidns_flags(false), birth);
	if (reaper < 0 && errno == EPERM) {
		birth->with_user = true;
		birth->user = geteuid();
		birth->group = getegid();
		reaper = clone(be_reaper, top, SIGCONT | pidns_flags(true), birth);
	}
	if (reaper >= 0)
		return reaper;
	const int error = errno;
	take_back(birth->setup);
	if (birth->setup->opt->contain == CONTAIN_AUTO)
		die("this kernel knows no subreapers and makes no PID namespace (%s): "
		    "run treewrap as PID 1",
		    strerror(error));
	die("--contain pidns: cannot make a PID namespace: %s", strerror(error));
}

/* Starts the reaper and guards it. */
static struct outcome be_shim(struct reaper_setup *setup)
{
	struct shim shim = {.setup = setup};
	struct reaper_birth birth = {.setup = setup};
	siginfo_t info = {0};

	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 && !is_pidns(setup)) {
		if (setup->opt->contain != CONTAIN_AUTO)
			die("this kernel knows no subreapers: run treewrap as PID 1, or "
			    "use --contain pidns");
		setup->contain = CONTAIN_PIDNS;
	}
	/* From inside there is no way to the /proc that our caller sees. */
	if (is_pidns(setup))
		tree_open(setup->tree);
	if (link_open(birth.ends) < 0)
		die("cannot make a socket pair: %s", strerror(errno));
	if (is_pidns(setup))
		be_woken_by(birth.ends[0]);
	contain(setup);
	give_name(setup);
	shim.missed = signals_pending();
	shim.reaper = start_reaper(&birth);
	close(birth.ends[1]);
	shim.link = birth.ends[0];
	shim.ready_at = clock_now_ns() + READY_NS;
	/* Now that the reaper has been born, and not later: see reaper_start(). */
	privs_raise_priority();
	reaper_settle(setup, &shim.link, 1);
	guard(&shim, &info);
	return outcome_of_reaper(&shim, &info);
}

/* ---- behind a relay ---- */

/* Children from before the exec are not ours to end (as PID 1 they are). */
static bool has_children(void)
{
	siginfo_t info;

	return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0;
}

/* Never returns: its end is what the relay passes on. */
static int be_shim_behind_relay(void *argument)
{
	struct reaper_setup *setup = argument;

	/* As if we had been killed ourselves: the reaper ends the tree. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != setup->front)
		_exit(STATUS_FAILED);
	setup->shim = getpid();
	setup->shim_leads_session = false;
	const struct outcome outcome = be_shim(setup);
	exit_as(&outcome);
}

static struct outcome be_relay(struct reaper_setup *setup)
{
	static char stack[SHIM_STACK_SIZE] __attribute__((aligned(16)));
	const uint64_t missed = signals_pending();
	const pid_t shim =
		clone(be_shim_behind_relay, stack + sizeof(stack), SIGCONT, setup);

	if (shim < 0)
		die("cannot fork: %s", strerror(errno));
	let_go(&setup->signals, 1, NULL, false);
	privs_seal();
	const struct relayed end =
		relay_run(shim, setup->signals, missed, setup->shim_leads_session);
	if (end.code == CLD_EXITED)
		return (struct outcome){end.status, 0};
	return (struct outcome){128 + end.status, end.status};
}

static struct outcome be_pid_1(struct reaper_setup *setup)
{
	contain(setup);
	give_name(setup);
	return reaper_run(setup);
}

/* --watch-pid came too late: the record says so, and nothing has been run. */
static int end_before_start(const struct options *opt, struct status *status)
{
	static struct ending ending = {.cause = CAUSE_PID, .was_asked = true};

	ending.status = outcome_of(opt, &ending, false).status;
	status_end(status, &ending);
	return ending.status;
}

int main(int argc, char **argv)
{
	/* Static for their size, and handed on by pointer alone. */
	static struct tree tree;
	static struct status status;
	struct watches watches;
	struct options opt;
	struct inherited inherited;
	struct outcome outcome;
	struct privs privs;

	names_parse(&opt, argc, argv);
	signals_take(&inherited);
	status_open(&status, &opt);
	if (opt.as.guise != NULL)
		opt.as.guise->prepare(&opt, &inherited, &status);
	if (!watches_open(&watches, &opt, &status))
		return end_before_start(&opt, &status);
	tree.proc = tree.own_children = tree.outside = -1;
	privs_look(&privs);
	if (opt.rights.user_word != NULL && opt.rights.user != geteuid() &&
	    geteuid() == 0 && !privs.kill)
		die("--user: '%s' cannot be had without CAP_KILL: the command could not "
		    "be "
		    "ended",
		    opt.rights.user_word);
	const pid_t self = getpid();
	const pid_t session = getsid(0);
	struct reaper_setup setup = {
		.opt = &opt,
		.privs = &privs,
		.inherited = &inherited,
		.tree = &tree,
		.status = &status,
		.watches = &watches,
		.contain = opt.contain == CONTAIN_AUTO ? CONTAIN_TREE : opt.contain,
		.signals = descriptor_above_2(signals_open()),
		.link = -1,
		.shim = self,
		.front = self,
		.shim_group = getpgrp(),
		.session = session,
		.shim_leads_session = session == self,
	};
	if (setup.signals == -1)
		die("cannot open a signalfd: %s", strerror(errno));
	if (setup.shim == 1)
		outcome = be_pid_1(&setup);
	else if (has_children())
		outcome = be_relay(&setup);
	else
		outcome = be_shim(&setup);
	exit_as(&outcome);
}
