/*
 * Promises: a polite signal reaches each process once, parents first; a round of killing
 * finds what it can and kills that, and says when the next one is due. Whether there is
 * one, reaper.c decides: see its phases. Nothing in here waits or reaps.
 */
#include "clock.h"
#include "privs.h"
#include "run.h"

#include <signal.h>
#include <unistd.h>

/* Walks of one polite signal: processes may be forked or handed over meanwhile. */
#define POLITE_WALKS_MAX 4

/* Between two rounds of killing: at least, and at most while deaths come in. */
#define ROUND_PAUSE_NS	   (4 * NS_PER_MS)
#define ROUND_PAUSE_MAX_NS (250 * NS_PER_MS)

/* So often those that were killed before are looked at again. Not in every few rounds: in
 * a crowd that takes a part of this to die it would double the time. */
#define PARDON_NS NS_PER_S

/* Generations that are felled, one after the other; and how often in a row, for an eighth
 * of a second, we wait for a parent's death in vain. */
#define FELLING_ROUNDS 64
#define BARREN_ROUNDS  5

/* What one death takes, about; more than so many at once are not waited for singly, but
 * for so long; or longer, if there is a list of those that die. */
#define DEATH_NS    (20 * NS_PER_US)
#define FEW_DYING   8
#define BATCH_NS    (2 * NS_PER_MS)
#define REST_MAX_NS (50 * NS_PER_MS)

/* So many rounds in a row without a death, more than a second, are no pause in the dying
 * any more. (A large family dies unseen by us until its parent, the last, has died.) */
#define STUCK_ROUNDS 10

void reaper_find_tree(struct reaper *r)
{
	const bool to_be_killed = r->phase == KILLING || r->opt->ladder_length == 0;

	if (r->just_walked) {
		r->just_walked = false;
	} else if (to_be_killed && (r->rounds > 0 || r->crowded) && r->tree->owner != 1 &&
		   !tree_is_populated(r->tree)) {
		privs_use(r->privs, PRIVILEGE_KILL, true);
		tree_freeze(r->tree);
		privs_use(r->privs, PRIVILEGE_KILL, false);
	} else {
		tree_walk(r->tree);
	}
}

/* SIGNO and SIGCONT to everything (in GROUP), parents first, each process once. */
static unsigned signal_tree_politely(struct reaper *r, int signo, pid_t group)
{
	unsigned from = 0;
	unsigned reached = 0;

	reaper_find_tree(r);
	privs_use(r->privs, PRIVILEGE_KILL, true);
	for (int walk = 0; walk < POLITE_WALKS_MAX && from < r->tree->count; walk++) {
		reached += tree_signal(r->tree, from, signo, NULL, true, group);
		from = r->tree->count;
		/* Those that were forked or changed their parent meanwhile. */
		tree_walk_on(r->tree);
	}
	privs_use(r->privs, PRIVILEGE_KILL, false);
	return reached;
}

static unsigned signal_command_politely(struct reaper *r, int signo)
{
	privs_use(r->privs, PRIVILEGE_KILL, true);
	/* Ours: it has not been reaped. */
	const bool reached = kill(r->command.pid, signo) == 0;
	kill(r->command.pid, SIGCONT);
	privs_use(r->privs, PRIVILEGE_KILL, false);
	return reached ? 1 : 0;
}

unsigned reaper_signal_politely(struct reaper *r)
{
	const int signo = r->opt->ladder[r->rung];

	if (!r->command_runs)
		return signal_tree_politely(r, signo, ANY_GROUP);
	reaper_tell(r, SIGNAL_SENT, signo, 0);
	if (r->opt->stop_to == TO_TREE)
		return signal_tree_politely(r, signo, ANY_GROUP);
	if (r->opt->stop_to == TO_MAIN)
		return signal_command_politely(r, signo);
	const bool has_left = getpgid(r->command.pid) != r->shim_group;
	return (has_left ? signal_command_politely(r, signo) : 0) +
	       signal_tree_politely(r, signo, r->shim_group);
}

void reaper_choose_rounds(struct reaper *r, bool real_time)
{
	const bool is_told = r->status->events.fd >= 0 || r->status->verbose > 0;
	const bool is_calm = !r->crowded && tree_is_calm(r->tree);

	r->felling =
		is_calm && !is_told && !r->just_walked && tree_can_be_felled(r->tree);
	r->crowded |= !is_calm && !real_time;
}

void reaper_fell_no_more(struct reaper *r)
{
	r->felling = false;
	tree_pardon(r->tree);
}

static unsigned fell(struct reaper *r)
{
	bool more;
	const unsigned reached = tree_fell(r->tree, &more);

	r->barren = reached > 0 ? 0 : r->barren + 1;
	/* The children of those that are still dying are not to be seen. */
	if (!more && r->died >= r->killed)
		r->felling = false;
	else if (r->barren >= BARREN_ROUNDS || r->rounds >= FELLING_ROUNDS)
		reaper_fell_no_more(r);
	return reached;
}

static unsigned kill_one_by_one(struct reaper *r)
{
	if (!r->felling)
		reaper_find_tree(r);
	privs_use(r->privs, PRIVILEGE_KILL, true);
	const unsigned reached = r->felling ? fell(r) : tree_kill(r->tree);
	privs_use(r->privs, PRIVILEGE_KILL, false);
	return reached;
}

unsigned reaper_kill_round(struct reaper *r)
{
	const bool first = r->rounds == 0;
	unsigned reached = first && r->cgroup != NULL ? tree_count_cgroup(r->tree) : 0;

	/* All at once where the kernel can. Who has left the cgroup is found in the
	 * rounds that follow. */
	if (!tree_kill_cgroup(r->tree) || !first)
		reached = kill_one_by_one(r);
	r->idle_rounds = r->died == r->died_before_round && r->rounds > 0 && !r->felling
				 ? r->idle_rounds + 1
				 : 0;
	r->round_began_at = clock_now_ns();
	/* A living one may have taken a dead one's number, and others may keep us busy.
	 */
	if (r->round_began_at - r->pardoned_at >= PARDON_NS) {
		tree_pardon(r->tree);
		r->pardoned_at = r->round_began_at;
	}
	r->killed += reached;
	r->died_before_round = r->died;
	r->rounds++;
	r->last_death_at = r->round_began_at;
	r->phase_ends_at = r->round_began_at;
	/* Longer and longer where nothing dies, as in uninterruptible sleep. */
	if (!r->felling)
		r->phase_ends_at += ROUND_PAUSE_NS
				    << (r->idle_rounds < 6 ? r->idle_rounds : 6);
	return reached;
}

bool reaper_round_is_due(const struct reaper *r, int64_t now)
{
	int64_t pause = ROUND_PAUSE_NS;

	if (r->felling)
		pause <<= r->barren;
	else if (tree_is_populated(r->tree))
		pause = ROUND_PAUSE_MAX_NS;
	return r->died >= r->killed || now - r->last_death_at >= pause ||
	       now - r->round_began_at >= ROUND_PAUSE_MAX_NS;
}

int64_t reaper_rest_ns(const struct reaper *r)
{
	if (r->phase != KILLING || r->killed <= r->died + FEW_DYING ||
	    r->idle_rounds >= STUCK_ROUNDS)
		return 0;
	const int64_t rest = (r->killed - r->died) * DEATH_NS;
	const int64_t longest = r->listed > 0 ? REST_MAX_NS : BATCH_NS;
	return rest < longest ? rest : longest;
}
