/*
 * Promises: a signal goes on once, with the value it was queued with, to processes that
 * are proven to be the tree's; never to the caller's group, even where the command shares
 * it.
 */
#include "forward.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

/* False if it was refused: the command is another user's by now. */
static bool forward_to_main(const struct forwarding *f, int signo, siginfo_t *info)
{
	/* Ours: it has not been reaped. */
	return (info != NULL ? syscall(SYS_rt_sigqueueinfo, f->command->pid, signo, info)
			     : kill(f->command->pid, signo)) == 0;
}

static void forward_to_tree(const struct forwarding *f, int signo, const siginfo_t *info,
			    pid_t group)
{
	tree_walk(f->tree);
	tree_signal(f->tree, 0, signo, info, false, group);
}

static void forward_to_group(const struct forwarding *f, int signo, siginfo_t *info)
{
	/*
	 * A group of the command's own: its leader has not been reaped, so the number is
	 * not another group's. A shared group, or a value, which a group cannot be sent:
	 * only those members of the tree that are in it.
	 */
	if (info == NULL && f->command->own_group &&
	    getpgid(f->command->pid) == f->command->pid)
		kill(-f->command->pid, signo);
	else
		forward_to_tree(f, signo, info, getpgid(f->command->pid));
}

static void forward_to_shim_group(const struct forwarding *f, int signo, siginfo_t *info)
{
	if (getpgid(f->command->pid) != f->shim_group)
		forward_to_main(f, signo, info);
	forward_to_tree(f, signo, info, f->shim_group);
}

bool forward_is_by_terminal(int signo)
{
	static const int by_terminal[] = {SIGINT,  SIGQUIT, SIGTSTP, SIGHUP,
					  SIGCONT, SIGTTIN, SIGTTOU, SIGWINCH};

	for (size_t i = 0; i < sizeof(by_terminal) / sizeof(by_terminal[0]); i++)
		if (signo == by_terminal[i])
			return true;
	return false;
}

/* True if the terminal sent it to the whole group, of which the command has its copy. */
static bool command_has_it(const struct forwarding *f, const struct arrived *arrived)
{
	if (arrived->code != SI_KERNEL || arrived->missed || f->command == NULL)
		return false;
	/* A hangup is told to the session's leader alone. */
	if (f->shim_leads_session &&
	    (arrived->signo == SIGHUP || arrived->signo == SIGCONT))
		return false;
	return forward_is_by_terminal(arrived->signo) &&
	       getpgid(f->command->pid) == f->shim_group;
}

/* The signal to send for ARRIVED, or 0 if none is to be sent. */
static int signal_for(const struct forwarding *f, const struct arrived *arrived)
{
	const uint8_t rewritten = f->opt->rewrite[arrived->signo];

	if (rewritten == REWRITE_DROP || command_has_it(f, arrived))
		return 0;
	return rewritten == 0 ? arrived->signo : rewritten;
}

void forward_before_exec(const struct forwarding *f, const struct arrived *arrived)
{
	const int signo = signal_for(f, arrived);
	siginfo_t info;

	if (signo != 0)
		forward_to_main(f, signo,
				signals_value(arrived, signo, &info) ? &info : NULL);
}

bool forward(const struct forwarding *f, const struct arrived *arrived,
	     struct forwarded *forwarded)
{
	const int signo = signal_for(f, arrived);
	/* When the command is gone its leftovers are all that can be meant. */
	const enum scope to = f->command != NULL ? f->opt->forward_to : TO_TREE;

	if (signo == 0)
		return false;
	siginfo_t info;
	siginfo_t *value = signals_value(arrived, signo, &info) ? &info : NULL;
	bool refused = false;
	if (to == TO_MAIN)
		refused = !forward_to_main(f, signo, value);
	else if (to == TO_GROUP)
		forward_to_group(f, signo, value);
	else if (to == TO_SHIM_GROUP)
		forward_to_shim_group(f, signo, value);
	else
		forward_to_tree(f, signo, value, ANY_GROUP);
	*forwarded = (struct forwarded){signo, to, refused};
	return true;
}
