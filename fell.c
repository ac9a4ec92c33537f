/*
 * Promises: SIGKILL to descendants of the owner and nobody else, parents first, at the
 * price of no more than a few system calls for each.
 *
 * When a parent dies its children are handed to the owner, whose list of its own children
 * then tells of them for nothing, while to look for them below their parent makes the
 * kernel fill its cache of /proc and empty it again: ten times the price of killing them.
 * So of many children their parent is killed first. Those of one who has few are looked
 * for: in a long line each generation would else have to be waited for.
 *
 * Does not promise: to find who forks meanwhile. Parents first is the wrong order against
 * those: see tree_freeze(). Nor that nobody notices the death of his parent before his
 * own: that hangs up pipes, sends what PR_SET_PDEATHSIG asks for, and continues, with a
 * SIGHUP, who was stopped.
 */
#include "member.h"
#include "proc.h"

#include <unistd.h>

/* So many children are few. */
#define FEW 4

/* So many are proven, and held by a pidfd, before their turn comes. */
#define STANDING_MAX 64

struct standing {
	struct member member;
	int pidfd; /* -1: the owner's own child */
};

/* Why it is ours: the owner's unreaped child; or proven, and by its pidfd still that. */
static bool kill_standing(struct tree *tree, const struct standing *standing)
{
	if (member_signal(&standing->member, standing->pidfd, SIGKILL, NULL) != 0)
		return false;
	set_bit(tree->doomed, standing->member.pid);
	return true;
}

static bool is_felled(const struct tree *tree, pid_t pid)
{
	return pid >= TREE_NUMBERS_MAX || has_bit(tree->doomed, pid);
}

/* PID was listed as a child of PARENT. Is what CHILD's new pidfd stands for that? */
static bool hold(struct tree *tree, pid_t pid, const struct standing *parent,
		 struct standing *child)
{
	pid_t its_parent;
	uint64_t id;
	const int pidfd = member_open(tree, pid);

	if (pidfd < 0)
		return false;
	*child = (struct standing){{.pid = pid}, pidfd};
	if (member_identify(tree, pid, pidfd, &its_parent, &id) &&
	    its_parent == parent->member.pid)
		return true;
	close(pidfd);
	return false;
}

/* PARENT's children, if they are few, into CHILDREN. *MORE is set if they are not. */
static unsigned hold_children(struct tree *tree, const struct standing *parent,
			      struct standing children[FEW], bool *more)
{
	const pid_t of = parent->member.pid;
	struct proc_numbers numbers = {.fd = -1};
	unsigned count = 0;
	pid_t pid;

	/* Of one thread there is one file, and it is all. */
	if (proc_count_threads(tree->proc, of) == 1)
		numbers.fd = proc_open_children(tree->proc, of, of);
	if (numbers.fd < 0) {
		*more = true;
		return 0;
	}
	/* Ends: with the file, mostly at one more than FEW. */
	while ((pid = proc_next_number(&numbers)) != 0 && count < FEW)
		if (!is_felled(tree, pid) && hold(tree, pid, parent, &children[count]))
			count++;
	close(numbers.fd);
	*more |= pid != 0;
	/* It lives: so its number meant it all along, and they are its children. */
	if (member_still_there(tree, &parent->member, parent->pidfd))
		return count;
	*more = true;
	while (count > 0)
		close(children[--count].pidfd);
	return 0;
}

/* The owner's child PID, and who is found below it. Returns how many it reached. */
static unsigned fell(struct tree *tree, pid_t pid, bool *more)
{
	struct standing standing[STANDING_MAX + FEW] = {
		{{.pid = pid, .child = true}, -1}};
	unsigned count = 1;
	unsigned reached = 0;

	/* Ends: each turn takes one, and from some turn on adds none. */
	for (unsigned turn = 0; count > 0; turn++) {
		const struct standing next = standing[--count];
		if (count <= STANDING_MAX && turn < TREE_MEMBERS_MAX)
			count += hold_children(tree, &next, standing + count, more);
		else
			*more = true;
		reached += kill_standing(tree, &next);
		if (next.pidfd >= 0)
			close(next.pidfd);
	}
	return reached;
}

unsigned tree_fell(struct tree *tree, bool *more)
{
	const unsigned count = tree_list_children(tree);
	unsigned living = 0;
	unsigned reached = 0;

	for (unsigned i = 0; i < count; i++)
		living += !is_felled(tree, tree->members[i].pid);
	*more = living > FEW;
	for (unsigned i = 0; i < count; i++) {
		const struct standing child = {tree->members[i], -1};
		if (is_felled(tree, child.member.pid))
			continue;
		if (living > FEW)
			reached += kill_standing(tree, &child);
		else
			reached += fell(tree, child.member.pid, more);
	}
	return reached;
}
