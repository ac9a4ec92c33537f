/*
 * Promises: every signal sent here goes to a descendant of the owner; a walk over a tree
 * that holds still finds all of it; every walk ends.
 * Does not promise: that one walk finds all of a tree that moves. The caller repeats, and
 * the end is proven by waitid(2) alone (ECHILD), never by an empty list.
 */
#include "tree.h"
#include "clock.h"
#include "descriptor.h"
#include "kernel.h"
#include "member.h"
#include "proc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FREEZE_WALKS_MAX 64

/* With so many that want a CPU, and one more for each CPU, there may be a bomb among
 * them. */
#define CALM_MAX 16
#define CPUS_MAX 8192

/* See probe(). */
#define PROBE_FIRST 1024
#define PROBE_NEAR  32768

/* How a walk treats what it finds. */
enum visit {
	JUST_LIST,
	STOP_UNSEEN, /* SIGSTOP without a look: the cheapest */
	STOP_MOVING, /* SIGSTOP to what is not stopped, and count what may fork */
};

/* Both calls are needed: the second says EBADF to this if it is there. */
static bool pidfds_refused(void)
{
	return syscall(SYS_pidfd_send_signal, -1, 0, NULL, 0) < 0 && errno != EBADF;
}

static void add(struct tree *tree, pid_t pid, bool child, uint64_t id)
{
	tree->members[tree->count++] =
		(struct member){.pid = pid, .child = child, .id = id};
	set_bit(tree->met, pid);
}

/* Is PID, if it is a member, to be put into the list? */
static bool is_wanted(const struct tree *tree, pid_t pid, enum visit how)
{
	return pid > 0 && pid < TREE_NUMBERS_MAX && tree->count < TREE_MEMBERS_MAX &&
	       !has_bit(tree->met, pid) &&
	       (how == JUST_LIST || !has_bit(tree->doomed, pid));
}

/* What a freeze does with the member just added, which PIDFD stands for. */
static void visit(struct tree *tree, int pidfd, enum visit how)
{
	const struct member *member = &tree->members[tree->count - 1];
	struct proc_stat line;

	if (how == JUST_LIST)
		return;
	if (how == STOP_MOVING) {
		if (!proc_read_stat(tree->proc, member->pid, &line) ||
		    proc_is_over(&line) || line.state == 'T' || line.state == 't')
			return;
		/* Uninterruptible sleep: no fork comes before it ends, nor does a stop.
		 * Z: its first thread has ended, what the others do is not to be seen. */
		if (line.state != 'D' && line.state != 'Z')
			tree->moving++;
	}
	/* Why it is ours: our caller has proven it. A failure (no permission) shows when
	 * the same member cannot be killed either. */
	member_signal(member, pidfd, SIGSTOP, NULL);
}

/* ---- walking ---- */

/* Waiting without waiting answers 0 for our own children only; INFO says if it has ended.
 */
static bool is_own_child(pid_t pid, siginfo_t *info)
{
	info->si_pid = 0;
	return waitid(P_PID, (id_t)pid, info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0;
}

/* Nobody to look below of: a member too deep for that, or where it is of no use. */
#define NO_DEPTH INT_MAX

/* So many levels are looked at one below the other, each with a pidfd that is held and a
 * few kB of stack; those below come later. */
#define DEPTH_MAX 8

/* More threads than this have too many children files. */
#define THREADS_MAX 16

static void look_below(struct tree *tree, unsigned index, int pidfd, enum visit how,
		       int depth);

static void add_child(struct tree *tree, pid_t pid, enum visit how)
{
	add(tree, pid, true, 0);
	visit(tree, -1, how);
}

/*
 * PID was listed as a child of PARENT, which PARENT_FD stands for: prove and add it, and
 * look below it as long as its pidfd is at hand.
 */
/* NOLINTNEXTLINE(misc-no-recursion): bounded by DEPTH_MAX. */
static void consider(struct tree *tree, pid_t pid, const struct member *parent,
		     int parent_fd, enum visit how, int depth)
{
	pid_t its_parent;
	uint64_t id;

	if (!is_wanted(tree, pid, how))
		return;
	const int pidfd = member_open(tree, pid);
	if (pidfd < 0 && !tree->no_pidfd)
		return;
	if (member_identify(tree, pid, pidfd, &its_parent, &id) &&
	    its_parent == parent->pid && member_still_there(tree, parent, parent_fd)) {
		add(tree, pid, false, id);
		visit(tree, pidfd, how);
		if (depth < DEPTH_MAX)
			look_below(tree, tree->count - 1, pidfd, how, depth);
	}
	if (pidfd >= 0)
		close(pidfd);
}

/* NOLINTNEXTLINE(misc-no-recursion): bounded by DEPTH_MAX. */
static void add_children_of_thread(struct tree *tree, const struct member *parent,
				   int parent_fd, pid_t thread, enum visit how, int depth)
{
	struct proc_numbers numbers = {
		.fd = proc_open_children(tree->proc, parent->pid, thread)};
	pid_t pid;

	if (numbers.fd < 0)
		return;
	while ((pid = proc_next_number(&numbers)) != 0)
		consider(tree, pid, parent, parent_fd, how, depth + 1);
	close(numbers.fd);
}

/*
 * A children file lists what one thread forked: go through all of them, if they are few;
 * else that is left to look_at_threads().
 */
/* NOLINTNEXTLINE(misc-no-recursion): bounded by DEPTH_MAX. */
static void add_children_of(struct tree *tree, struct member *parent, int parent_fd,
			    enum visit how, int depth)
{
	const int count = proc_count_threads(tree->proc, parent->pid);
	struct proc_entries threads = {.fd = -1};
	pid_t thread;

	if (count < 0)
		return;
	if (count == 1) {
		add_children_of_thread(tree, parent, parent_fd, parent->pid, how, depth);
		return;
	}
	if (count > THREADS_MAX && !tree->each_thread) {
		tree->threads += (unsigned)count;
		parent->threaded = true;
		return;
	}
	/* Of this one; those below may have as many. */
	tree->each_thread = false;
	threads.fd = proc_open_file(tree->proc, parent->pid, "task");
	if (threads.fd < 0)
		return;
	tree->read += !has_bit(tree->read_threads, parent->pid);
	set_bit(tree->read_threads, parent->pid);
	while ((thread = proc_next_entry(&threads)) != 0)
		add_children_of_thread(tree, parent, parent_fd, thread, how, depth);
	close(threads.fd);
}

/* Member INDEX, which PIDFD stands for: its children are added. */
/* NOLINTNEXTLINE(misc-no-recursion): bounded by DEPTH_MAX. */
static void look_below(struct tree *tree, unsigned index, int pidfd, enum visit how,
		       int depth)
{
	struct member *member = &tree->members[index];

	member->looked = true;
	add_children_of(tree, member, pidfd, how, depth);
}

/* The owner's own children; they need no proof: the kernel lists them as such. */
static void add_own_children(struct tree *tree, enum visit how)
{
	struct proc_numbers numbers = {.fd = tree->own_children};
	pid_t pid;

	/* Ends: with the file. */
	while ((pid = proc_next_number(&numbers)) != 0)
		if (is_wanted(tree, pid, how))
			add_child(tree, pid, how);
}

/* Those that nobody has looked below of yet. */
static void look_below_all(struct tree *tree, enum visit how)
{
	int pidfd;

	/* Ends: COUNT grows only by new members, of which there is a maximum. */
	for (unsigned i = 0; i < tree->count; i++) {
		const struct member *member = &tree->members[i];
		if (member->looked || !member_meet_again(tree, member, &pidfd))
			continue;
		look_below(tree, i, pidfd, how, 0);
		if (pidfd >= 0)
			close(pidfd);
	}
}

/* The member with the number PID. Searched from the end: children come soon after. */
static const struct member *member_by_number(const struct tree *tree, pid_t pid)
{
	for (unsigned i = tree->count; i-- > 0;)
		if (tree->members[i].pid == pid)
			return &tree->members[i];
	return NULL;
}

/* One process of a scan: a child of the owner, or of a member, or nothing to us. */
static void consider_scanned(struct tree *tree, pid_t pid, enum visit how)
{
	struct proc_stat line;
	int parent_fd;

	if (!is_wanted(tree, pid, how) || !proc_read_stat(tree->proc, pid, &line))
		return;
	if (line.parent == tree->owner) {
		/* Ours for certain only if waiting for it is ours: see below. */
		siginfo_t info;
		if (is_own_child(pid, &info))
			add_child(tree, pid, how);
		return;
	}
	if (line.parent <= 0 || line.parent >= TREE_NUMBERS_MAX ||
	    !has_bit(tree->met, line.parent))
		return;
	const struct member *parent = member_by_number(tree, line.parent);
	if (parent == NULL || !member_meet_again(tree, parent, &parent_fd))
		return;
	consider(tree, pid, parent, parent_fd, how, NO_DEPTH);
	if (parent_fd >= 0)
		close(parent_fd);
}

/* What a probe has come upon. */
struct finds {
	bool any;   /* a child of ours */
	bool fresh; /* one that is new to the list and has not been sent SIGKILL */
};

static void probe_range(struct tree *tree, pid_t from, pid_t to, enum visit how,
			struct finds *finds)
{
	siginfo_t info;

	for (pid_t pid = from; pid < to && pid < TREE_NUMBERS_MAX; pid++) {
		if (!is_own_child(pid, &info))
			continue;
		finds->any = true;
		if (!is_wanted(tree, pid, how))
			continue;
		finds->fresh |= !has_bit(tree->doomed, pid);
		add_child(tree, pid, how);
	}
}

/*
 * No /proc at all: waiting without waiting answers 0 for our own children only, so their
 * numbers can be found by trying. Deeper members come up to us as orphans when these die.
 * A number takes a microsecond or a few, and there are four million; but descendants got
 * theirs after we got ours, or the numbers have begun anew. So upwards from ours and from
 * 1, in steps that double, until there is something to do; a child that is dying already
 * is reason enough not to go far.
 */
static void probe(struct tree *tree, enum visit how)
{
	struct finds finds = {false, false};
	pid_t tried = 0;

	for (pid_t step = PROBE_FIRST; tried < TREE_NUMBERS_MAX; step *= 2) {
		const pid_t low_end =
			tried + step < tree->owner ? tried + step : tree->owner;
		probe_range(tree, tree->owner + tried, tree->owner + tried + step, how,
			    &finds);
		probe_range(tree, tried > 0 ? tried : 1, low_end, how, &finds);
		tried += step;
		if (finds.fresh || (finds.any && tried >= PROBE_NEAR))
			return;
	}
}

/*
 * Reads all of /proc for children of members. True if that has added any. Without a
 * descriptor for that, as without /proc.
 */
static bool scan(struct tree *tree, enum visit how)
{
	const unsigned before = tree->count;
	struct proc_entries all = {.fd = openat(tree->proc, ".", O_RDONLY | O_CLOEXEC)};
	pid_t pid;

	if (all.fd < 0) {
		probe(tree, how);
		return false;
	}
	while ((pid = proc_next_entry(&all)) != 0)
		consider_scanned(tree, pid, how);
	close(all.fd);
	return tree->count != before;
}

/*
 * Members with many threads: each thread's children, or, where that were more to read,
 * all processes once. (/proc counts them as links of its own.) True if that has added
 * any.
 */
static bool look_at_threads(struct tree *tree, enum visit how)
{
	const unsigned before = tree->count, threads = tree->threads;
	struct stat st = {.st_nlink = 0};
	int pidfd;

	tree->threads = 0;
	if (fstat(tree->proc, &st) == 0 && threads > st.st_nlink)
		return scan(tree, how);
	for (unsigned i = 0; i < before; i++) {
		struct member *member = &tree->members[i];
		if (!member->threaded || !member_meet_again(tree, member, &pidfd))
			continue;
		member->threaded = false;
		tree->each_thread = true;
		look_below(tree, i, pidfd, how, 0);
		tree->each_thread = false;
		if (pidfd >= 0)
			close(pidfd);
	}
	return tree->count != before;
}

/* What visit_contained() gets. */
struct contained {
	struct tree *tree;
	enum visit how;
};

/*
 * PID is listed as in our cgroup. Before anything is done to it: a pidfd, and then, does
 * the number's holder sit in our cgroup? If the number went to another since the listing,
 * that one does not, or is as good a member; if since the pidfd, that reaches nobody.
 */
static void visit_contained(pid_t pid, void *argument)
{
	const struct contained *contained = argument;
	struct tree *tree = contained->tree;
	pid_t parent;
	uint64_t id;

	if (!is_wanted(tree, pid, contained->how))
		return;
	const int pidfd = member_open(tree, pid);
	if (pidfd < 0 && !tree->no_pidfd)
		return;
	if (cgroup_holds(tree->cgroup, proc_open_file(tree->proc, pid, "cgroup")) &&
	    member_identify(tree, pid, pidfd, &parent, &id)) {
		add(tree, pid, false, id);
		visit(tree, pidfd, contained->how);
	}
	if (pidfd >= 0)
		close(pidfd);
}

static void find(struct tree *tree, enum visit how)
{
	struct contained contained = {tree, how};

	tree->threads = 0;
	if (tree->proc < 0) {
		probe(tree, how);
		return;
	}
	if (tree->own_children >= 0)
		add_own_children(tree, how);
	if (tree->cgroup != NULL)
		cgroup_visit(tree->cgroup, visit_contained, &contained);
	/* Both end: every turn but the last adds a member, and there is room for so many.
	 */
	if (tree->own_children < 0) {
		while (scan(tree, how)) {
		}
		return;
	}
	do
		look_below_all(tree, how);
	while (tree->threads > 0 && look_at_threads(tree, how));
}

static void forget_threads(struct tree *tree, pid_t pid)
{
	tree->read -= tree_has_read_threads(tree, pid);
	clear_bit(tree->read_threads, pid);
}

static void open_if_new(struct tree *tree)
{
	if (tree->owner != getpid())
		tree_open(tree);
}

static void forget(struct tree *tree)
{
	open_if_new(tree);
	for (unsigned i = 0; i < tree->count; i++) {
		tree->met[tree->members[i].pid / 64] = 0;
		/* (The next walk may read them again. Those that die are reaped soon.) */
		if (!has_bit(tree->doomed, tree->members[i].pid))
			forget_threads(tree, tree->members[i].pid);
	}
	tree->count = 0;
}

unsigned tree_list_children(struct tree *tree)
{
	forget(tree);
	if (tree->own_children >= 0)
		add_own_children(tree, JUST_LIST);
	return tree->count;
}

unsigned tree_walk(struct tree *tree)
{
	forget(tree);
	find(tree, JUST_LIST);
	return tree->count;
}

unsigned tree_walk_on(struct tree *tree)
{
	for (unsigned i = 0; i < tree->count; i++)
		tree->members[i].looked = false;
	find(tree, JUST_LIST);
	return tree->count;
}

void tree_freeze(struct tree *tree)
{
	forget(tree);
	find(tree, STOP_UNSEEN);
	/* Nobody can see whether they have stopped. */
	if (tree->proc < 0)
		return;
	/*
	 * A stopped process cannot fork, and a fork that was under way is over when its
	 * process is seen stopped; so a walk that finds all at rest has found all, unless
	 * somebody has died meanwhile and handed his children over: they are met in the
	 * next round. (See models/freeze.pml.) The bound is for those that send SIGCONT
	 * or cannot be stopped: killing goes on with what there is.
	 */
	for (int walk = 0; walk < FREEZE_WALKS_MAX; walk++) {
		forget(tree);
		tree->moving = 0;
		find(tree, STOP_MOVING);
		if (tree->moving == 0)
			return;
		/* To stop, they need the CPU that we would walk with. */
		const struct timespec pause = {0, walk < 8 ? 250000 : 2000000};
		nanosleep(&pause, NULL);
	}
}

bool tree_is_calm(struct tree *tree)
{
	unsigned long cpus[CPUS_MAX / (8 * sizeof(long))] = {0};
	int calm = CALM_MAX;

	open_if_new(tree);
	/* If it fails, there are too many: we take them for none. */
	syscall(SYS_sched_getaffinity, 0, sizeof(cpus), cpus);
	for (size_t i = 0; i < sizeof(cpus) / sizeof(cpus[0]); i++)
		calm += __builtin_popcountl(cpus[i]);
	return proc_running(tree->proc) <= calm;
}

bool tree_can_be_felled(struct tree *tree)
{
	open_if_new(tree);
	return tree->owner != 1 && tree->cgroup == NULL && tree->own_children >= 0;
}

/* ---- signalling what was found ---- */

unsigned tree_signal(struct tree *tree, unsigned from, int signo, const siginfo_t *info,
		     bool cont, pid_t group)
{
	struct tree_report report;
	unsigned reached = 0;
	int pidfd;

	for (unsigned i = from; i < tree->count; i++) {
		const struct member *member = &tree->members[i];
		/* Why it is ours: proven by the walk, and met again as the same. */
		if (!member_meet_again(tree, member, &pidfd))
			continue;
		if ((group == ANY_GROUP || getpgid(member->pid) == group) &&
		    tree_describe(tree, i, &report)) {
			const int error = member_signal(member, pidfd, signo, info);
			reached += error == 0;
			if (cont && error == 0)
				member_signal(member, pidfd, SIGCONT, NULL);
		}
		if (pidfd >= 0)
			close(pidfd);
	}
	return reached;
}

static void count_only(pid_t pid, void *argument)
{
	(void)pid;
	(void)argument;
}

unsigned tree_count_cgroup(const struct tree *tree)
{
	return cgroup_visit(tree->cgroup, count_only, NULL);
}

bool tree_is_populated(const struct tree *tree)
{
	return tree->cgroup != NULL && cgroup_is_populated(tree->cgroup);
}

bool tree_kill_cgroup(const struct tree *tree)
{
	/* Why they are ours: the cgroup is, and nobody is in it but by our doing. */
	return tree->cgroup != NULL && cgroup_kill(tree->cgroup);
}

unsigned tree_kill(struct tree *tree)
{
	unsigned reached = 0;
	int pidfd;

	/* As PID 1 the kernel does it at once under its task lock; all that it spares is
	 * ourselves, and all that it reaches would die with us. */
	if (tree->owner == 1) {
		kill(-1, SIGKILL);
		return tree->count;
	}
	for (unsigned i = tree->count; i-- > 0;) {
		const struct member *member = &tree->members[i];
		/* Why it is ours: proven by the walk, and met again as the same. */
		if (!member_meet_again(tree, member, &pidfd))
			continue;
		if (member_signal(member, pidfd, SIGKILL, NULL) == 0) {
			set_bit(tree->doomed, member->pid);
			reached++;
		}
		if (pidfd >= 0)
			close(pidfd);
	}
	return reached;
}

/* ---- opening and reporting ---- */

void tree_open(struct tree *tree)
{
	/* After a fork /proc itself still serves, the children file is another's. */
	if (tree->proc < 0)
		tree->proc = proc_open();
	if (tree->own_children >= 0)
		close(tree->own_children);
	tree->owner = getpid();
	tree->no_pidfd = pidfds_refused();
	tree->own_children = -1;
	if (tree->proc < 0)
		return;
	/* Opened now, to be read again and again: later there may be no descriptors. */
	tree->own_children = descriptor_above_2(
		proc_open_children(tree->proc, tree->owner, tree->owner));
}

void tree_open_inside(struct tree *tree)
{
	tree->outside = tree->proc;
	tree->proc = -1;
	tree_open(tree);
}

pid_t tree_number_outside(const struct tree *tree, pid_t pid)
{
	return tree->outside < 0 ? pid : proc_number_outside(tree->outside, pid);
}

pid_t tree_number_for_reply(const struct tree *tree, pid_t pid)
{
	if (tree->outside < 0 || pid == 0)
		return pid;
	return proc_number_by_pidfd(tree->outside, pid);
}

void tree_pardon(struct tree *tree)
{
	/* Most of it has never been touched, and reading costs no memory. */
	for (size_t i = 0; i < sizeof(tree->doomed) / sizeof(tree->doomed[0]); i++)
		/* cppcheck-suppress duplicateConditionalAssign ; see above */
		if (tree->doomed[i] != 0)
			tree->doomed[i] = 0;
}

void tree_reaped(struct tree *tree, pid_t pid)
{
	if (pid >= TREE_NUMBERS_MAX)
		return;
	clear_bit(tree->doomed, pid);
	forget_threads(tree, pid);
}

bool tree_has_read_threads(const struct tree *tree, pid_t pid)
{
	return tree->read > 0 && pid < TREE_NUMBERS_MAX &&
	       has_bit(tree->read_threads, pid);
}

const char *tree_blindness(struct tree *tree)
{
	open_if_new(tree);
	if (tree->proc < 0)
		return "/proc does not show our processes: they are found by waiting "
		       "alone";
	if (proc_hides(tree->proc))
		return "/proc hides the processes of other users: theirs are found only "
		       "as "
		       "their parents die";
	return NULL;
}

bool tree_describe(struct tree *tree, unsigned index, struct tree_report *report)
{
	const struct member *member = &tree->members[index];
	struct proc_stat line;
	siginfo_t info;

	*report = (struct tree_report){.pid = member->pid, .state = '?', .command = "?"};
	if (member->child && (!is_own_child(member->pid, &info) || info.si_pid != 0))
		return false;
	if (!proc_read_stat(tree->proc, member->pid, &line))
		return member->child;
	if (!member->child && proc_is_over(&line))
		return false;
	report->state = line.state;
	memcpy(report->command, line.command, sizeof(report->command));
	return true;
}

bool tree_detail(const struct tree *tree, const struct tree_report *report,
		 struct tree_details *details)
{
	const int64_t tick_ns = NS_PER_S / TICKS_PER_S;
	struct timespec now = {0, 0};
	struct proc_stat line;

	if (!proc_read_stat(tree->proc, report->pid, &line))
		return false;
	/* The clock that the start is told by; it cannot fail. */
	clock_gettime(CLOCK_BOOTTIME, &now);
	details->parent = line.parent;
	details->session = line.session;
	details->cpu_ns = (int64_t)line.cpu * tick_ns;
	details->age_ns =
		now.tv_sec * NS_PER_S + now.tv_nsec - (int64_t)line.start * tick_ns;
	return true;
}

void tree_explain(struct tree *tree, const struct tree_report *report, char *text,
		  size_t size)
{
	char where[48] = "";
	const int fd =
		tree->proc < 0 ? -1 : proc_open_file(tree->proc, report->pid, "wchan");

	if (fd >= 0) {
		const ssize_t got = read(fd, where, sizeof(where) - 1);
		where[got > 0 ? got : 0] = '\0';
		close(fd);
	}
	if (report->state != 'D')
		/* Why it is ours: described a moment ago; and 0 is no signal. */
		snprintf(text, size, "%s",
			 kill(report->pid, 0) < 0 && errno == EPERM
				 ? "permission denied"
				 : "it has not ended yet");
	else if (proc_is_frozen(tree->proc, report->pid))
		snprintf(text, size, "frozen by its cgroup");
	else if (where[0] != '\0' && where[0] != '0')
		snprintf(text, size, "uninterruptible sleep in %s", where);
	else
		snprintf(text, size, "uninterruptible sleep");
}
