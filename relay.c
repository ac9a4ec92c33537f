/*
 * Promises: nothing is done to any child but the shim; the caller sees of this process
 * what it would have seen of the shim. If this process is killed, the shim dies with it
 * (PDEATHSIG), and the reaper ends the tree.
 * Does not promise: that it runs on when the shim alone has been continued.
 */
#include "relay.h"
#include "clock.h"
#include "forward.h"
#include "signals.h"
#include "wait.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The shim is our child and not reaped: its number is its own. */
static void pass_on(pid_t shim, const struct arrived *arrived, bool leads_session)
{
	const int signo = arrived->signo;
	siginfo_t info;

	if (signo == SIGCHLD || arrived->sender == shim)
		return;
	/* The terminal has sent it to the shim too, which is in our group; a hangup alone
	 * goes to the session's leader only. */
	if (arrived->code == SI_KERNEL && !arrived->missed &&
	    forward_is_by_terminal(signo) && !(leads_session && signo == SIGHUP))
		return;
	if (signals_value(arrived, signo, &info))
		syscall(SYS_rt_sigqueueinfo, shim, signo, &info);
	else
		kill(shim, signo);
}

/* Stops until somebody continues us, which the shim's death does too (see shim.c). */
static void stop_too(pid_t shim, int signo)
{
	siginfo_t info = {.si_pid = 0};

	/* SIGSTOP could not be taken back. */
	if (signo == SIGSTOP)
		signo = SIGTSTP;
	signals_stop_begin(signo);
	const bool still =
		waitid(P_PID, (id_t)shim, &info,
		       WEXITED | WCONTINUED | WNOHANG | WNOWAIT | __WALL) == 0 &&
		info.si_pid == 0;
	signals_stop_end(signo, still);
}

struct relayed relay_run(pid_t shim, int signals, uint64_t missed, bool leads_session)
{
	struct arrived arrived;

	/* Ends with the shim: its death is a SIGCONT, its stopping a SIGCHLD. */
	for (;;) {
		struct pollfd fd = {.fd = signals, .events = POLLIN};
		siginfo_t info = {.si_pid = 0};
		/* Fails only if we have no such child, which is as good as ended. */
		if (waitid(P_PID, (id_t)shim, &info,
			   WEXITED | WSTOPPED | WNOHANG | __WALL) < 0)
			return (struct relayed){CLD_KILLED, SIGKILL};
		if (info.si_pid != 0 && info.si_code == CLD_STOPPED)
			stop_too(shim, info.si_status);
		else if (info.si_pid != 0)
			return (struct relayed){info.si_code, info.si_status};
		wait_for(-1, &fd, 1,
			 signals == SIGNALS_UNPOLLED ? SIGNALS_LOOK_MS * NS_PER_MS
						     : NEVER);
		while (signals_read(signals, &arrived)) {
			arrived.missed = signals_was_pending(&missed, &arrived);
			pass_on(shim, &arrived, leads_session);
		}
	}
}
