/*
 * Promises: returns only when waitid(2) has answered ECHILD (or after survivors have been
 * named, or leftovers left as asked); every wait has a deadline where the tree is being
 * stopped; from the moment the command runs, nothing here allocates, forks or executes.
 *
 * One loop waits for everything; PHASE says where the tree is on its way, and enter() is
 * the only place that changes it:
 *
 *   RUNNING ── command ended, leftovers ──> DRAINING ── linger over ──> STOPPING
 *      └────────── timeout, watch ───────────────────────────────────────> │
 *                                              SIGKILL <── ladder climbed ──┘
 *   KILLING ── no descendant left (from any phase), or verify-for over ──> GONE
 */
#include "clock.h"
#include "kernel.h"
#include "link.h"
#include "privs.h"
#include "report.h"
#include "run.h"
#include "serve.h"
#include "wait.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Events taken in one turn of the loop, so that a flood of one kind cannot hold up the
 * deadlines. */
#define REAPED_PER_TURN	 1024
#define SIGNALS_PER_TURN 64

/* More children than this that may be dead are fetched one by one: to wait for any of
 * them the kernel looks at each that lives, again and again. */
#define MANY 1024

/* __WALL: children whose parents chose another exit signal count too. */
#define ANY_CHANGE (WEXITED | WSTOPPED | WCONTINUED | WNOHANG | __WALL)

/* Orphans that come faster than this are reaped once in so much time: to be woken for
 * each would take the CPU from whoever makes them. */
#define REST_NS NS_PER_MS

/* A deadline noticed so much later means that the machine is crowded. */
#define LATE_NS (50 * NS_PER_MS)

static void enter(struct reaper *r, enum phase phase);
static void look_at_children(struct reaper *r);

/* ---- the shim ---- */

/*
 * SIGNO to the shim. Why it is the shim: it was our parent after the pidfd was taken, so
 * the number had been its own; a pidfd never turns to another process.
 */
static void signal_shim(const struct reaper *r, int signo)
{
	if (r->link < 0)
		return;
	const int pidfd = (int)syscall(SYS_pidfd_open, r->shim, 0);
	if (getppid() == r->shim) {
		if (pidfd >= 0)
			syscall(SYS_pidfd_send_signal, pidfd, signo, NULL, 0);
		else
			kill(r->shim, signo);
	}
	if (pidfd >= 0)
		close(pidfd);
}

static void tell_shim(const struct reaper *r, enum link_type type, int signo)
{
	const struct link_message message = {
		.type = type,
		.stop = {.signo = signo, .number = r->stops},
	};

	/* If its queue is full or it is gone there is nothing better to do. */
	if (r->link >= 0)
		link_send(r->link, &message);
}

/*
 * The command was stopped by SIGNO: so is the shim to be. It does it itself where it can
 * take it back; SIGSTOP it gets from us, so that nothing we send later, and not the
 * SIGCONT that our death sends, can come before it. (From a PID namespace of our own we
 * cannot signal it: it knows.)
 */
static void stop_shim(struct reaper *r, int signo)
{
	r->stops++;
	r->command_stopped = true;
	tell_shim(r, LINK_STOPPED, signo);
	if (signo == SIGSTOP && getppid() != 0)
		signal_shim(r, SIGSTOP);
}

void reaper_tell(const struct reaper *r, enum happening what, int number, int how)
{
	/* (Why a command could not be run has been told; how it ended is ours alone.) */
	if (r->opt->as.guise != NULL && r->ending.cause != CAUSE_EXEC_FAILED)
		r->opt->as.guise->tell(r->opt, r->status, what, number, how);
}

/* ---- stopping ---- */

static bool raise_priority(const struct privs *privs)
{
	privs_use(privs, PRIVILEGE_NICE, true);
	const bool real_time = privs_raise_priority();
	privs_use(privs, PRIVILEGE_NICE, false);
	return real_time;
}

static void continue_killing(struct reaper *r, int64_t now)
{
	if (now >= r->verify_ends_at) {
		if (r->felling) {
			reaper_fell_no_more(r);
			reaper_kill_round(r);
		}
		/* A round may have taken long, and they may have died meanwhile. */
		look_at_children(r);
		if (r->phase == GONE)
			return;
		/* Whether we may signal them is a part of it. */
		privs_use(r->privs, PRIVILEGE_KILL, true);
		report_survivors(r->tree, r->status, r->opt, &r->ending);
		privs_use(r->privs, PRIVILEGE_KILL, false);
		enter(r, GONE);
		return;
	}
	if (reaper_round_is_due(r, now))
		reaper_kill_round(r);
}

/* It and enter() call each other once at most: KILLING does not lead back. */
/* NOLINTNEXTLINE(misc-no-recursion) */
static void enter_stopping(struct reaper *r)
{
	if (!r->ending.was_asked)
		r->ending.had_to_stop_leftovers = true;
	if (r->rung >= r->opt->ladder_length) {
		enter(r, KILLING);
		return;
	}
	raise_priority(r->privs);
	const unsigned reached = reaper_signal_politely(r);
	if (r->rung > 0)
		status_escalate(r->status, r->opt->ladder[r->rung], reached);
	r->phase_ends_at = clock_after(clock_now_ns(),
				       r->command_runs && r->opt->command_time_ns != 0
					       ? r->opt->command_time_ns
					       : r->opt->kill_after_ns);
}

/* Tells of the stop of so many PROCESSES, once. */
static void tell_stop(struct reaper *r, unsigned processes)
{
	if (!r->stop_untold)
		return;
	r->stop_untold = false;
	status_stop(r->status, r->ending.cause, processes);
	say_more(r->status, "stopping %u process%s: %s", processes,
		 processes == 1 ? "" : "es", cause_name(r->ending.cause));
}

static void enter_killing(struct reaper *r)
{
	const int64_t now = clock_now_ns();

	/* The command, if it is of the same user, may have lowered it. */
	reaper_choose_rounds(r, raise_priority(r->privs));
	r->verify_ends_at = r->opt->verify_for_ns > 0
				    ? clock_after(now, r->opt->verify_for_ns)
				    : NEVER;
	r->pardoned_at = now;
	if (r->command_runs)
		reaper_tell(r, SIGNAL_SENT, SIGKILL, 0);
	const unsigned reached = reaper_kill_round(r);
	tell_stop(r, reached);
	status_escalate(r->status, SIGKILL, reached);
	say_more(r->status, "SIGKILL to %u process%s", reached, reached == 1 ? "" : "es");
}

static void enter_draining(struct reaper *r)
{
	r->phase_ends_at = r->opt->leftovers == LEFTOVERS_WAIT
				   ? NEVER
				   : clock_after(clock_now_ns(), r->opt->linger_ns);
}

/* NOLINTNEXTLINE(misc-no-recursion): see enter_stopping() */
static void enter(struct reaper *r, enum phase phase)
{
	r->phase = phase;
	r->phase_ends_at = NEVER;
	switch (phase) {
	case RUNNING:
	case GONE:
		break;
	case DRAINING:
		enter_draining(r);
		break;
	case STOPPING:
		enter_stopping(r);
		break;
	case KILLING:
		enter_killing(r);
		break;
	}
}

void reaper_stop(struct reaper *r, enum cause cause)
{
	const bool at_once = cause == CAUSE_SHIM_KILLED ||
			     (cause == CAUSE_PARENT && r->opt->parent_signal == SIGKILL);

	if (r->phase >= (at_once ? KILLING : STOPPING))
		return;
	/* The command had ended by itself and its leftovers were on their way out: that
	 * goes faster now, but it is not what ended the run. Nor is it if there was none.
	 */
	if ((r->phase != DRAINING || r->opt->leftovers == LEFTOVERS_WAIT || at_once) &&
	    r->ending.cause != CAUSE_EXEC_FAILED) {
		r->ending.cause = cause;
		r->ending.was_asked = true;
	}
	r->stop_untold = true;
	/* Where all are killed they are counted on the way: no time is lost before. */
	if (!at_once && r->opt->ladder_length > 0) {
		reaper_find_tree(r);
		r->just_walked = true;
		tell_stop(r, r->tree->count);
	}
	enter(r, at_once ? KILLING : STOPPING);
	/* The first signal may have gone to the command alone. */
	r->just_walked = false;
}

/* ---- signals that treewrap gets ---- */

struct forwarding reaper_forwarding(const struct reaper *r)
{
	return (struct forwarding){
		.opt = r->opt,
		.tree = r->tree,
		.command = r->command_runs ? &r->command : NULL,
		.shim_group = r->shim_group,
		.shim_leads_session = r->shim_leads_session,
	};
}

void reaper_use_callers_rights(const struct reaper *r, bool on)
{
	if (r->privs->kill_is_callers)
		privs_use(r->privs, PRIVILEGE_KILL, on);
}

/*
 * forward() with our caller's rights; where that takes longer than the signal, only if it
 * is refused without: to the command alone, which is mostly of our own user. (A failure
 * with them is the sender's: he could not have sent it either.)
 */
static bool forward_by_right(const struct reaper *r, const struct arrived *arrived,
			     struct forwarded *forwarded)
{
	const struct forwarding forwarding = reaper_forwarding(r);

	if (r->command_runs && r->opt->forward_to == TO_MAIN) {
		const bool wanted = forward(&forwarding, arrived, forwarded);
		if (!wanted || !forwarded->refused)
			return wanted;
	}
	reaper_use_callers_rights(r, true);
	const bool sent = forward(&forwarding, arrived, forwarded);
	reaper_use_callers_rights(r, false);
	return sent;
}

static void pass_to_command(struct reaper *r, const struct arrived *arrived)
{
	struct forwarded forwarded;

	if (!forward_by_right(r, arrived, &forwarded))
		return;
	if (forwarded.signo == SIGCONT)
		r->passed_stop = false;
	else if (signals_stops(forwarded.signo))
		r->passed_stop = true;
	status_signal(r->status, forwarded.signo, arrived->sender, forwarded.to);
}

/*
 * SIGNO, which has been forwarded, asks the command to end: it must be able to, even if
 * it is stopped, and has no more than its time for it. Then comes SIGKILL.
 */
static void ask_to_end(struct reaper *r, int signo)
{
	const struct arrived cont = {.signo = SIGCONT, .code = SI_USER};

	if ((r->opt->ask_to_end >> (signo - 1) & 1) == 0 || !r->command_runs ||
	    r->phase != RUNNING)
		return;
	if (r->opt->forward_to != TO_MAIN)
		pass_to_command(r, &cont);
	const int64_t end = clock_after(clock_now_ns(), r->opt->command_time_ns);
	if (end == NEVER || r->rung > 0)
		return;
	r->rung = r->opt->ladder_length;
	if (end < r->timeout_at)
		r->timeout_at = end;
}

bool reaper_is_stopped_by(const struct reaper *r, int signo)
{
	return (r->opt->stop_on >> (signo - 1) & 1) != 0;
}

/*
 * Has ARRIVED, a SIGCONT or what stops, done its work already? Job control sends it to
 * the group that shim and command share; passed on late, it would undo what came after
 * it. A SIGCONT is still wanted if the command is in that stop which the shim knew of, or
 * in one that we have made by passing a signal on.
 */
static bool is_stale(const struct reaper *r, const struct arrived *arrived)
{
	const bool stops = signals_stops(arrived->signo);
	siginfo_t info = {.si_pid = 0};

	if ((!stops && arrived->signo != SIGCONT) || !r->command_runs || r->link < 0 ||
	    (!stops && r->passed_stop) || getpgid(r->command.pid) != r->shim_group)
		return false;
	/* What has happened and not been fetched yet. */
	waitid(P_PID, (id_t)r->command.pid, &info,
	       WSTOPPED | WCONTINUED | WNOHANG | WNOWAIT | __WALL);
	return r->command_stopped == stops || info.si_pid != 0 ||
	       arrived->stops != r->stops;
}

/* A signal came to treewrap, here or by the shim. */
static void receive(struct reaper *r, const struct arrived *arrived)
{
	if (reaper_is_stopped_by(r, arrived->signo) && r->phase < STOPPING) {
		reaper_stop(r, CAUSE_SIGNAL);
	} else if (!is_stale(r, arrived)) {
		reaper_tell(r, SIGNAL_RECEIVED, arrived->signo, 0);
		pass_to_command(r, arrived);
		ask_to_end(r, arrived->signo);
	}
}

/*
 * The command is in stop NUMBER still, and the shim could not be stopped: see there.
 * Ours, and not reaped; so a group that it leads has its number, and whoever is in there
 * has come out of it. (Into the shim's group it came alone, and only so long could it be
 * stopped there.)
 */
static void continue_command(const struct reaper *r, unsigned number)
{
	const pid_t pid = r->command.pid;

	if (!r->command_runs || !r->command_stopped || number != r->stops)
		return;
	privs_use(r->privs, PRIVILEGE_KILL, true);
	kill(r->command.own_group && getpgid(pid) == pid ? -pid : pid, SIGCONT);
	privs_use(r->privs, PRIVILEGE_KILL, false);
}

/* What the whole group got before the command was in it: we had been there. */
static void look_if_missed(struct reaper *r, struct arrived *arrived)
{
	if (signals_was_pending(&r->command.missed, arrived))
		arrived->missed = true;
}

bool reaper_take_message(struct reaper *r, struct link_message *message)
{
	if (message->type == LINK_CONTINUE)
		continue_command(r, message->stop.number);
	if (message->type != LINK_SIGNAL)
		return false;
	look_if_missed(r, &message->signal);
	return true;
}

/*
 * The shim is what people signal, if there is one. But a program that we are called as is
 * its command's parent, and gets what that sends to its parent. (Not what we got while we
 * were in the shim's group: the shim got it too.)
 */
bool reaper_is_for_us(struct reaper *r, struct arrived *arrived)
{
	if (r->link < 0) {
		look_if_missed(r, arrived);
		return true;
	}
	return r->opt->as.guise != NULL && arrived->sender != r->shim &&
	       !signals_was_pending(&r->group_copies, arrived);
}

static void take_signals(struct reaper *r)
{
	struct arrived arrived;

	for (int i = 0; i < SIGNALS_PER_TURN && signals_read(r->signals, &arrived); i++) {
		if (arrived.signo == SIGCHLD)
			r->more_to_reap = true;
		else if (reaper_is_for_us(r, &arrived))
			receive(r, &arrived);
	}
}

static void take_link(struct reaper *r, short revents)
{
	struct link_message message;

	for (int i = 0; i < SIGNALS_PER_TURN && link_receive(r->link, &message); i++)
		if (reaper_take_message(r, &message))
			receive(r, &message.signal);
	if ((revents & (POLLHUP | POLLERR)) != 0) {
		wait_no_more(r->epoll, r->link);
		close(r->link);
		r->link = r->status->link = -1;
		reaper_stop(r, CAUSE_SHIM_KILLED);
	}
}

/* ---- reaping ---- */

/* Is the reaper to sleep, though there may be somebody to reap? */
static bool is_resting(const struct reaper *r, int64_t now)
{
	return reaper_rest_ns(r) > 0 || now < r->rest_ends_at;
}

static void command_ended(struct reaper *r, const siginfo_t *info)
{
	struct ending *ending = &r->ending;

	r->command_runs = false;
	ending->command_ended = true;
	if (info->si_code == CLD_EXITED) {
		ending->exit_code = info->si_status;
	} else {
		ending->exit_code = -1;
		ending->signo = info->si_status;
		ending->core = info->si_code == CLD_DUMPED;
	}
	reaper_tell(r, COMMAND_ENDED, info->si_pid,
		    ending->signo != 0 ? -ending->signo : ending->exit_code);
	if (ending->core)
		reaper_tell(r, COMMAND_DUMPED, info->si_pid, 0);
}

void reaper_child_changed(struct reaper *r, const siginfo_t *info)
{
	const bool is_command = r->command_runs && info->si_pid == r->command.pid;

	switch (info->si_code) {
	case CLD_STOPPED:
		if (is_command)
			stop_shim(r, info->si_status);
		return;
	case CLD_CONTINUED:
		if (is_command) {
			r->command_stopped = false;
			tell_shim(r, LINK_CONTINUED, 0);
			signal_shim(r, SIGCONT);
		}
		return;
	case CLD_TRAPPED:
		/* It has asked its parent to trace it, which is not our business. It gets
		 * the signal that it was to get. Fails if it has just been killed. */
		ptrace(PTRACE_DETACH, info->si_pid, NULL,
		       info->si_status == SIGTRAP ? 0L : (long)info->si_status);
		return;
	}
	const int64_t now = clock_now_ns();

	tree_reaped(r->tree, info->si_pid);
	r->ending.reaped++;
	if (r->phase == KILLING)
		r->died++;
	else if (r->phase == RUNNING && !is_command && now - r->last_death_at < REST_NS)
		r->rest_ends_at = now + REST_NS;
	r->last_death_at = now;
	if (r->phase == KILLING && info->si_code == CLD_KILLED &&
	    info->si_status == SIGKILL)
		r->ending.killed++;
	const int how = info->si_code == CLD_EXITED ? info->si_status : -info->si_status;
	reaper_tell(r, CHILD_ENDED, info->si_pid, how);
	if (is_command)
		command_ended(r, info);
	else if (r->opt->tell_reaped)
		say(r->status, "reaped orphan %d", (int)info->si_pid);
}

/*
 * waitid(2) for the child PID, without waiting. Where the kernel may have to wait for
 * another process to do it (see tree_has_read_threads()), that one gets the CPU.
 */
static int fetch_one(const struct reaper *r, pid_t pid, siginfo_t *info)
{
	const bool may_wait = tree_has_read_threads(r->tree, pid);

	if (may_wait)
		privs_lower_priority();
	const int fetched = waitid(P_PID, (id_t)pid, info, ANY_CHANGE);
	if (may_wait)
		raise_priority(r->privs);
	return fetched;
}

/* The same for any child. */
static int fetch(const struct reaper *r, siginfo_t *info)
{
	if (r->tree->read == 0)
		return waitid(P_ALL, 0, info, ANY_CHANGE);
	if (waitid(P_ALL, 0, info, ANY_CHANGE | WNOWAIT) < 0)
		return -1;
	/* It is there: nobody else waits for our children. */
	return info->si_pid == 0 ? 0 : fetch_one(r, info->si_pid, info);
}

/* Fetches what there is of many children. False if they are not so many. */
static bool reap_many(struct reaper *r)
{
	r->listed = 0;
	if (reaper_rest_ns(r) == 0 || r->killed - r->died <= MANY)
		return false;
	const unsigned count = tree_list_children(r->tree);
	if (count <= MANY)
		return false;
	r->listed = count;
	unsigned fetched = 0;
	/* Ends: with the list. Ours: the kernel lists them as our children. */
	for (unsigned i = 0; i < count; i++) {
		siginfo_t info = {.si_pid = 0};
		if (fetch_one(r, r->tree->members[i].pid, &info) < 0 || info.si_pid == 0)
			continue;
		reaper_child_changed(r, &info);
		fetched++;
	}
	/* Of those that are left the kernel will tell; if none are, it has. */
	r->more_to_reap = fetched == count;
	return true;
}

/* Fetches what there is; what is left over for the next turn sets MORE_TO_REAP. */
static void reap(struct reaper *r)
{
	r->more_to_reap = false;
	r->childless = false;
	if (reap_many(r))
		return;
	for (int i = 0; i < REAPED_PER_TURN; i++) {
		siginfo_t info = {.si_pid = 0};
		if (fetch(r, &info) < 0) {
			/* ECHILD, for the arguments are good: this is the proof. */
			r->childless = true;
			return;
		}
		if (info.si_pid == 0)
			return;
		reaper_child_changed(r, &info);
	}
	r->more_to_reap = true;
}

/* The command has ended and others have not. */
static void deal_with_leftovers(struct reaper *r)
{
	report_leftovers(r->tree, r->status, r->opt, &r->ending);
	enter(r, r->opt->leftovers == LEFTOVERS_LEAVE ? GONE : DRAINING);
}

static void look_at_children(struct reaper *r)
{
	const bool ran = r->command_runs;

	reap(r);
	/* In a cgroup of ours there may be some that are nobody's descendants any more.
	 */
	if (r->childless && !tree_is_populated(r->tree))
		enter(r, GONE);
	else if (ran && !r->command_runs &&
		 (r->phase == RUNNING ||
		  (r->phase == STOPPING && r->opt->command_time_ns != 0)))
		deal_with_leftovers(r);
}

/* ---- the loop ---- */

static void phase_is_over(struct reaper *r)
{
	switch (r->phase) {
	case DRAINING:
		status_stop(r->status, r->ending.cause, r->ending.leftovers);
		r->rung = 0;
		enter(r, STOPPING);
		break;
	case STOPPING:
		if (++r->rung < r->opt->ladder_length)
			enter(r, STOPPING);
		else
			enter(r, KILLING);
		break;
	case KILLING:
	case RUNNING:
	case GONE:
		break;
	}
}

static void look_at_clock(struct reaper *r)
{
	const int64_t now = clock_now_ns();

	if (now >= r->ready_at) {
		r->ready_at = NEVER;
		tree_open(r->tree);
	}
	if (now >= r->timeout_at) {
		r->crowded = now - r->timeout_at > LATE_NS;
		r->timeout_at = NEVER;
		reaper_stop(r, CAUSE_TIMEOUT);
	} else if (r->phase == KILLING) {
		if (now >= r->phase_ends_at || now >= r->verify_ends_at)
			continue_killing(r, now);
	} else if (now >= r->phase_ends_at) {
		phase_is_over(r);
	}
}

int64_t reaper_look_again_ns(const struct reaper *r)
{
	if (r->signals == SIGNALS_UNPOLLED)
		return SIGNALS_LOOK_MS * NS_PER_MS;
	for (unsigned i = 0; i < r->watches->count; i++)
		if (r->watches->watch[i].unpolled && r->watches->watch[i].fd >= 0)
			return WATCH_LOOK_MS * NS_PER_MS;
	return NEVER;
}

/* While those that were killed die, PHASE_ENDS_AT passes: not in circles then. */
static int64_t phase_pauses_until(const struct reaper *r, int64_t now)
{
	const int64_t rest = reaper_rest_ns(r);

	if (r->phase != KILLING || (rest == 0 && r->phase_ends_at > now))
		return r->phase_ends_at;
	return now + (rest > 0 ? rest : NS_PER_MS);
}

/* Until the nearest deadline, in nanoseconds. */
static int64_t time_left(const struct reaper *r)
{
	const int64_t now = clock_now_ns();
	int64_t next = phase_pauses_until(r, now);

	if (r->timeout_at < next)
		next = r->timeout_at;
	if (r->verify_ends_at < next)
		next = r->verify_ends_at;
	if (r->ready_at < next)
		next = r->ready_at;
	if (now < r->rest_ends_at && r->rest_ends_at < next)
		next = r->rest_ends_at;
	int64_t left = next == NEVER ? NEVER : next - now;

	if (left > reaper_look_again_ns(r))
		left = reaper_look_again_ns(r);
	if (left > control_patience_ns(r->control))
		left = control_patience_ns(r->control);
	return left < 0 || r->more_to_reap ? 0 : left;
}

/* With -p: as if the signal had been sent to treewrap, which SIGKILL would have ended. */
static void parent_ended(struct reaper *r)
{
	const struct arrived arrived = {.signo = r->opt->parent_signal, .code = SI_USER};

	if (arrived.signo == SIGKILL)
		reaper_stop(r, CAUSE_PARENT);
	else
		receive(r, &arrived);
}

static void look_at_watches(struct reaper *r, const struct pollfd *fds)
{
	for (unsigned i = 0; i < r->watches->count; i++) {
		struct watch *watch = &r->watches->watch[i];
		if (watch->fd < 0 || !watch_is_over(watch, fds[i].revents))
			continue;
		/* Once is enough; it would be ready for ever. */
		wait_no_more(r->epoll, watch->fd);
		close(watch->fd);
		watch->fd = -1;
		if (watch->cause == CAUSE_PARENT && r->opt->parent_signal != 0)
			parent_ended(r);
		else
			reaper_stop(r, watch->cause);
	}
}

unsigned reaper_fill_poll(const struct reaper *r, struct pollfd fds[POLL_MAX])
{
	fds[POLL_SIGNALS] = (struct pollfd){.fd = r->signals, .events = POLLIN};
	fds[POLL_LINK] = (struct pollfd){.fd = r->link, .events = POLLIN};
	fds[POLL_EVENTS] = (struct pollfd){.fd = -1, .events = POLLOUT};
	fds[POLL_CGROUP] = (struct pollfd){.fd = -1, .events = POLLPRI};
	/* It tells of a change since we looked last: look once we have no children. */
	if (r->childless && r->cgroup != NULL)
		fds[POLL_CGROUP].fd = r->cgroup->events;
	if (is_resting(r, clock_now_ns()))
		fds[POLL_SIGNALS].fd = -1;
	if (status_waits(r->status))
		fds[POLL_EVENTS].fd = r->status->events.fd;
	for (unsigned i = 0; i < r->watches->count; i++)
		fds[POLL_WATCHES + i] =
			(struct pollfd){.fd = r->watches->watch[i].fd,
					.events = r->watches->watch[i].events};
	if (r->control == NULL)
		return POLL_WATCHES + r->watches->count;
	return POLL_WATCHES + r->watches->count +
	       control_fill_poll(r->control, fds + POLL_WATCHES + r->watches->count);
}

static void look_at_clients(struct reaper *r, const struct pollfd fds[CONTROL_POLLED])
{
	struct client *client = control_look(r->control, fds);

	if (client == NULL)
		return;
	const int64_t began = clock_now_ns();
	serve(r, client, r->control->line);
	control_answered(r->control, began);
}

void reaper_look_around(struct reaper *r, const struct pollfd fds[POLL_MAX])
{
	if (r->link >= 0)
		take_link(r, fds[POLL_LINK].revents);
	if (fds[POLL_EVENTS].revents != 0)
		status_flush(r->status);
	look_at_watches(r, fds + POLL_WATCHES);
	look_at_clock(r);
	if (r->control != NULL)
		look_at_clients(r, fds + POLL_WATCHES + r->watches->count);
}

/* Ends: every phase but RUNNING has a deadline (or the user asked for none), and a
 * child's death, which the kernel always tells, leads out of RUNNING. */
static void loop(struct reaper *r)
{
	struct pollfd fds[POLL_MAX];

	while (r->phase != GONE) {
		const unsigned count = reaper_fill_poll(r, fds);
		wait_for(r->epoll, fds, count, time_left(r));
		take_signals(r);
		if (fds[POLL_CGROUP].revents != 0)
			r->more_to_reap = true;
		if (r->more_to_reap || r->phase == KILLING)
			look_at_children(r);
		if (r->phase != GONE)
			reaper_look_around(r, fds);
	}
}

/* ---- the end ---- */

static void remove_cgroup(struct reaper *r)
{
	r->ending.had_cgroup = true;
	r->ending.usage = cgroup_usage(r->cgroup);
	/* With leftovers left, or survivors, it stays: the next run of this user clears
	 * it away. */
	privs_use(r->privs, PRIVILEGE_OVERRIDE, true);
	if (!cgroup_remove(r->cgroup))
		say_more(r->status, "the cgroup %s stays: %s", r->cgroup->path,
			 strerror(errno));
	privs_use(r->privs, PRIVILEGE_OVERRIDE, false);
}

static struct outcome finish(struct reaper *r)
{
	const struct outcome outcome =
		outcome_of(r->opt, &r->ending, getpid() == 1 && r->link < 0);

	if (r->cgroup != NULL)
		remove_cgroup(r);
	r->ending.status = outcome.status;
	/* Whoever reads of the end must not have our CPU before the shim knows of that.
	 */
	if (r->status->events.fd >= 0)
		raise_priority(r->privs);
	status_end(r->status, &r->ending);
	/* Should we be killed now, it has been told. */
	const struct link_message ended = {.type = LINK_ENDED, .outcome = outcome};
	if (r->link >= 0)
		link_send(r->link, &ended);
	control_end(r->control, serve_waits, serve_end, r);
	/* A stopped shim could not tell the caller that we are done; but our end is a
	 * SIGCONT to it (see shim.c). */
	return outcome;
}

static struct reaper prepare(const struct reaper_setup *setup)
{
	return (struct reaper){
		.opt = setup->opt,
		.tree = setup->tree,
		.status = setup->status,
		.watches = setup->watches,
		.contain = setup->contain,
		.cgroup = setup->cgroup,
		.control = setup->control,
		.privs = setup->privs,
		.signals = setup->signals,
		.link = setup->link,
		.shim = setup->shim,
		.front = setup->front,
		.shim_group = setup->shim_group,
		.shim_leads_session = setup->shim_leads_session,
		.session = setup->session,
		.command.progress = -1,
		.epoll = -1,
		.ready_at = NEVER,
		.timeout_at = NEVER,
		.phase_ends_at = NEVER,
		.verify_ends_at = NEVER,
		.ending.cause = CAUSE_EXIT,
	};
}

struct outcome reaper_run(const struct reaper_setup *setup)
{
	struct reaper r = prepare(setup);

	if (!reaper_start(&r, setup))
		enter(&r, GONE);
	loop(&r);
	return finish(&r);
}

struct outcome reaper_take_over(const struct reaper_setup *setup, bool *all_ended)
{
	struct reaper r = prepare(setup);

	r.ending.cause = CAUSE_REAPER_KILLED;
	/* The shim has closed what they stand on. */
	r.watches->count = 0;
	enter(&r, KILLING);
	loop(&r);
	*all_ended = r.ending.survivors == 0;
	return finish(&r);
}
