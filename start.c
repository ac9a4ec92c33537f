/*
 * Promises: the command runs with all that is its, and nothing that is ours; what keeps
 * it from running is told; a deadline, a watch and a signal hold even while its exec
 * hangs.
 */
#include "clock.h"
#include "kernel.h"
#include "let_go.h"
#include "link.h"
#include "names.h"
#include "privs.h"
#include "run.h"
#include "wait.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A child killed before its exec shares our memory until it is dead. */
#define BIRTH_DEATH_MS 1000

/*
 * Away from the shim: what kills its group, or hangs up its terminal, is not to kill both
 * of us. From a command with a group of its own before it is born; else afterwards, for
 * it is born into the shim's group by our being there, and gets from the first moment
 * what the terminal sends to that.
 *
 * Then it has to be a session of our own. As a parent from the same session but another
 * group we would keep the shim's group from being orphaned, and Ctrl-Z would stop where
 * it does not without treewrap. (A group of the command's own would be orphaned by our
 * leaving, and could not be stopped any more.) Neither call can fail: we lead nothing.
 */
static void leave(const struct reaper *r)
{
	if (r->link < 0)
		return; /* as PID 1 there is nobody to part from */
	if (r->command.own_group)
		setpgid(0, 0);
	else
		setsid();
}

void reaper_settle(const struct reaper_setup *setup, const int more[], size_t count)
{
	enum { FIXED = 6 + CGROUP_KEPT + CONTROL_KEPT };
	int keep[FIXED + REAPER_KEEPS_MORE] = {
		setup->signals,	   setup->status->errors.fd,  setup->status->events.fd,
		setup->tree->proc, setup->tree->own_children, setup->tree->outside,
	};

	cgroup_keep(setup->cgroup, keep + 6);
	control_keep(setup->control, keep + 6 + CGROUP_KEPT);
	memcpy(keep + FIXED, more, count * sizeof(more[0]));
	let_go(keep, FIXED + count, setup->privs, setup->opt->rights.user_word != NULL);
	status_own_errors(setup->status);
	privs_seal();
}

/* What the reaper needs beside: its end of the link, and what is waited for. */
static void settle(const struct reaper *r, const struct reaper_setup *setup)
{
	const struct watches *watches = setup->watches;
	int more[REAPER_KEEPS_MORE] = {setup->link, r->epoll};

	for (unsigned i = 0; i < watches->count; i++)
		more[2 + i] = watches->watch[i].fd;
	reaper_settle(setup, more, 2 + watches->count);
}

/* What the run depends on is waited for by more than poll(2): see wait.h. */
static void wait_by_all_means(struct reaper *r)
{
	r->epoll = wait_open();
	wait_also(r->epoll, r->signals, POLLIN, POLL_SIGNALS);
	wait_also(r->epoll, r->link, POLLIN, POLL_LINK);
	for (unsigned i = 0; i < r->watches->count; i++)
		wait_also(r->epoll, r->watches->watch[i].fd, r->watches->watch[i].events,
			  POLL_WATCHES + i);
}

/* A signal that came before the exec: for the command, or it stops the run. */
static void receive_early(struct reaper *r, const struct arrived *arrived)
{
	const struct forwarding forwarding = reaper_forwarding(r);

	if (reaper_is_stopped_by(r, arrived->signo) && !r->early_stop)
		r->early_stop = true;
	else
		forward_before_exec(&forwarding, arrived);
}

/*
 * A stop (by Ctrl-Z, say) is told, or a shell would wait for the command, and that for
 * the shell. Cannot fail: it is our child and not reaped.
 */
static void look_at_early_stop(struct reaper *r)
{
	siginfo_t info = {.si_pid = 0};

	waitid(P_PID, (id_t)r->command.pid, &info, WSTOPPED | WCONTINUED | WNOHANG);
	if (info.si_pid != 0)
		reaper_child_changed(r, &info);
}

/* Takes one at a time, of those that poll(2) has promised: so nothing fails. */
static void take_early_signals(struct reaper *r, const struct pollfd *fds)
{
	struct link_message message;
	struct arrived arrived;

	if ((fds[POLL_LINK].revents & POLLIN) != 0 && link_receive(r->link, &message) &&
	    reaper_take_message(r, &message))
		receive_early(r, &message.signal);
	if ((fds[POLL_SIGNALS].revents & POLLIN) != 0 &&
	    signals_read(r->signals, &arrived)) {
		if (arrived.signo == SIGCHLD)
			look_at_early_stop(r);
		else if (reaper_is_for_us(r, &arrived))
			receive_early(r, &arrived);
	}
}

/* Has one of the watches ended, or the shim? */
static bool is_stopped_early(const struct pollfd *fds, unsigned count)
{
	for (unsigned i = POLL_WATCHES; i < count; i++)
		if (fds[i].revents != 0)
			return true;
	return (fds[POLL_LINK].revents & (POLLHUP | POLLERR)) != 0;
}

/*
 * Waits until LIMIT for the exec, which may hang (on a network file system, say), passing
 * signals on. A watch that ends it is looked at only if WATCHING. True if the exec is
 * decided.
 */
static bool exec_decided(struct reaper *r, int64_t limit, bool watching)
{
	struct pollfd fds[POLL_MAX];

	/* Ends: at the limit, if there is one; else the caller has asked for none. */
	for (;;) {
		int64_t left = limit == NEVER ? NEVER : limit - clock_now_ns();
		if (left < 0)
			left = 0;
		/* Whoever asks something waits until the command runs. Nothing is waiting
		 * to be written yet: the place is free. */
		const unsigned count = POLL_WATCHES + (watching ? r->watches->count : 0);
		reaper_fill_poll(r, fds);
		fds[POLL_EVENTS] =
			(struct pollfd){.fd = r->command.progress, .events = POLLIN};
		const int64_t again = reaper_look_again_ns(r);
		wait_for(r->epoll, fds, count, left < again ? left : again);
		if (r->signals == SIGNALS_UNPOLLED && signals_pending() != 0)
			fds[POLL_SIGNALS].revents = POLLIN;
		if (fds[POLL_EVENTS].revents != 0)
			return true;
		take_early_signals(r, fds);
		if (left == 0 || is_stopped_early(fds, count) ||
		    (watching && r->early_stop))
			return false;
	}
}

/*
 * A timeout, a watch or a signal that comes before the exec gives it the time of the
 * whole ladder: a polite signal could do no more to it, and the loop will find the
 * timeout and the watch again. Nothing in here can fail, for errno is the child's too
 * (see command.h). False: it had to be killed.
 */
static bool wait_for_exec(struct reaper *r)
{
	struct pollfd death = {.fd = r->command.progress, .events = POLLIN};
	int64_t grace_ns;

	if (__builtin_mul_overflow(r->opt->kill_after_ns, r->opt->ladder_length,
				   &grace_ns))
		grace_ns = NEVER;
	if (exec_decided(r, r->timeout_at, true) ||
	    exec_decided(r, clock_after(clock_now_ns(), grace_ns), false))
		return true;
	/* Ours, not reaped. When it is dead, our memory is our own again. */
	kill(r->command.pid, SIGKILL);
	poll(&death, 1, BIRTH_DEATH_MS);
	return false;
}

static void say_failure(struct reaper *r, const struct failure *failure)
{
	r->ending.cause = CAUSE_EXEC_FAILED;
	r->ending.error = failure->error;
	r->ending.status = failure->status;
	if (failure->step == NULL && failure->status != STATUS_FAILED &&
	    r->opt->as.guise != NULL)
		r->ending.status =
			r->opt->as.guise->cannot_run(r->opt, failure, r->status);
	else if (failure->step != NULL)
		say(r->status, "cannot run '%s': %s: %s", r->opt->name, failure->step,
		    strerror(failure->error));
	else if (failure->status == STATUS_NOT_FOUND)
		say(r->status, "cannot run '%s': not found", r->opt->name);
	else
		say(r->status, "cannot run '%s': %s", r->opt->name,
		    failure->reason != NULL ? failure->reason : strerror(failure->error));
}

/* It is decided: the command RUNS, or cannot because of FAILURE. */
static void tell_of_exec(struct reaper *r, bool runs, const struct failure *failure)
{
	reaper_tell(r, COMMAND_STARTED, r->command.pid, 0);
	if (runs)
		status_start(r->status, r->opt,
			     r->control != NULL ? r->control->name : NULL, r->contain,
			     r->front, tree_number_outside(r->tree, r->command.pid));
	else
		say_failure(r, failure);
}

/* The exec had to be given up: see why, before the loop finds the command dead. */
static void look_at_what_came_first(struct reaper *r)
{
	struct pollfd fds[POLL_MAX];

	poll(fds, reaper_fill_poll(r, fds), 0);
	reaper_look_around(r, fds);
}

bool reaper_start(struct reaper *r, const struct reaper_setup *setup)
{
	struct failure failure;

	r->status->start_ns = clock_now_ns();
	r->timeout_at = r->opt->timeout_ns > 0
				? clock_after(r->status->start_ns, r->opt->timeout_ns)
				: NEVER;
	wait_by_all_means(r);
	/* As early as it can be: beside a bomb we would have to get the CPU for it first.
	 */
	const bool early = privs_are_ordinary();
	if (early)
		privs_raise_priority();
	r->command.own_group = command_leads_group(r->opt);
	const bool leaves_later = !r->command.own_group && r->link >= 0;
	if (r->command.own_group)
		leave(r);
	if (command_start(&r->command, r->opt, setup->inherited, r->cgroup, getpid(),
			  r->front, leaves_later ? r->shim_group : NOT_LEFT) < 0) {
		failure = (struct failure){STATUS_FAILED, errno, NULL, NULL};
		say_failure(r, &failure);
		return false;
	}
	if (leaves_later)
		leave(r);
	if (r->opt->as.guise != NULL)
		r->group_copies = signals_pending();
	r->command_runs = true;
	const bool decided = wait_for_exec(r);
	const bool runs = decided && command_progress(&r->command, &failure);
	/* Only now: what fails in here writes to errno, which the child was reading. */
	if (!early)
		privs_raise_priority();
	settle(r, setup);
	r->ready_at = clock_now_ns() + READY_NS;
	const char *blindness = r->opt->verbose > 0 ? tree_blindness(r->tree) : NULL;
	if (blindness != NULL)
		say_more(r->status, "%s", blindness);
	if (decided)
		tell_of_exec(r, runs, &failure);
	else
		look_at_what_came_first(r);
	if (r->early_stop && (runs || !decided))
		reaper_stop(r, CAUSE_SIGNAL);
	/* Its death may have been told before we asked for it. */
	r->more_to_reap = true;
	return true;
}
