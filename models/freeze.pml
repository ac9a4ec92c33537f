/*
 * Rounds of killing against members that fork whenever there is room: do they end, and is
 * every signal sent to a member?
 *
 * What is modelled, and the C that it stands for:
 *   Owner   reaper.c: loop() in KILLING, reap(); stop.c: kill_round(), find_tree(); tree.c:
 *           tree_freeze(), tree_walk(), find(), add_own_children(), add_children_of(),
 *           is_wanted(), meet_again(), consider(), identify(), still_there(), visit(),
 *           tree_kill(), tree_pardon(), tree_reaped()
 *   Number  a process number and whoever has it: nobody, a member, a stranger. Free, it is
 *           taken at once by whoever comes: so a number is recycled as fast as can be
 * The first round kills what one walk finds, the later ones freeze before. A children file
 * is read entry by entry, by its process's number; while a child of that process vanishes
 * it may omit others; our own is read until there is nobody else. Members fork, end, and
 * reap (or ignore SIGCHLD) when they like. A signal acts some time after it was sent, and
 * lets a fork that is under way finish; a stopped member does nothing, but SIGKILL ends
 * it. A member's end hands its children to the owner, and may wake those that are stopped
 * or about to be (an orphaned group's SIGHUP and SIGCONT).
 * An identity (a pidfd, its inode) is held as a bit that says whether the number has been
 * freed since it was taken: the same, and finite.
 *
 * What is claimed, for N numbers:
 *   the assertions in signal() and visit(): no stranger is ever signalled. With -DSTRANGERS;
 *   without them the state is small enough for
 *   ends  (weakly fair) The owner is told ECHILD.
 * For "ends" two things are supposed that the kernel does not promise but time does: those
 * sent SIGKILL are dead before the next round, and nobody ends by itself in the middle of
 * a freeze. Without either (SLOW_DEATHS, END_ANY_TIME) there are races that could be lost
 * in every single round: a member that ends at the wrong moment wakes its stopped child,
 * or hands over a running one, behind the walk. Each is lost by chance and tried again by
 * the next round; an enemy cannot choose the moment, for its members are stopped.
 *
 * What is left out:
 *   threads; members that send SIGCONT, and so the bound of 64 walks that is for them;
 *   uninterruptible sleep, no permission, --verify-for; subreapers among the members;
 *   time, but for the above; kernels without pidfds or /proc; PID 1.
 * Variants that must fail (see check.sh): NO_FREEZE, PARDON_WHEN_IDLE (a member that has
 * taken a dead one's number makes an orphan for each round), SLOW_DEATHS,
 * END_ANY_TIME; with strangers NO_PARENT_PROOF, NO_MEETING, REAP_BETWEEN.
 */
#ifndef N
#define N 3
#endif
#define OWNER N
#define WORLD (N + 1)

#define FREE	 0
#define RUNS	 1
#define STOPPED	 2
#define DEAD	 3 /* not reaped */
#define STRANGER 4

/* Of walks: */
#define JUST_LIST   0
#define STOP_UNSEEN 1
#define STOP_MOVING 2

/* Rounds from one pardon to the next; in reaper.c as many as come in a second. */
#define PARDON_ROUNDS 2

byte st[N];
byte parent[N];
bool stop_sent[N], kill_sent[N];

/* tree.c: struct tree. A member in the list is no more the one that was met if STALE. */
bool listed[N], child[N], stale[N], doomed[N];
byte order[N];
byte count;
bool moving;

/* Pidfds that are held now: the number whose, and has it been freed since? */
bool parent_fd_stale, fd_stale;
byte considered = N;
byte reading = N; /* whose children file is open */
bool vanished;	  /* a child of that one */

bool childless;
bool freezing; /* tree_freeze() is under way, or the killing that follows it */

#ifdef END_ANY_TIME
#define may_end true
#else
#define may_end (!freezing)
#endif

#define lives(n)     (st[n] == RUNS || st[n] == STOPPED)
#define is_member(n) (lives(n) || st[n] == DEAD)

/* ---- the kernel ---- */

inline free(n)
{
	st[n] = FREE;
	vanished = vanished || (reading != N && parent[n] == reading);
	parent[n] = 0;
	stale[n] = listed[n];
	parent_fd_stale = parent_fd_stale || (reading == n);
	fd_stale = fd_stale || (considered == n)
}

/* In an atomic: which of its stopped children are woken is open. */
inline die(n)
{
	st[n] = DEAD;
	stop_sent[n] = false;
	kill_sent[n] = false;
	i = 0;
	do
	:: i == N -> break
	:: i < N && is_member(i) && parent[i] == n ->
		parent[i] = OWNER;
		if
		:: st[i] == STOPPED && !kill_sent[i] -> st[i] = RUNS
		:: stop_sent[i] -> stop_sent[i] = false
		:: true
		fi;
		i++
	:: else -> i++
	od;
	i = 0;
	if
	:: parent[n] < N -> free(n) /* its parent ignores SIGCHLD */
	:: true
	fi
}

inline fork(n)
{
	i = 0;
	do
	:: i == N -> break
	:: i < N && st[i] == FREE -> st[i] = RUNS; parent[i] = n; break
	:: else -> i++
	od;
	i = 0
}

proctype Number(byte n)
{
	byte i;

	do
	:: st[n] == RUNS && !stop_sent[n] && !kill_sent[n] -> skip
	:: atomic { st[n] == RUNS && !stop_sent[n] && !kill_sent[n] -> fork(n) }
	:: atomic { st[n] == RUNS && may_end -> die(n) }
	:: d_step { st[n] == RUNS && stop_sent[n] && !kill_sent[n] ->
		st[n] = STOPPED; stop_sent[n] = false }
	:: d_step { st[n] == RUNS && stop_sent[n] && !kill_sent[n] ->
		fork(n); st[n] = STOPPED; stop_sent[n] = false }
	:: atomic { st[n] == RUNS && kill_sent[n] -> fork(n); die(n) }
	:: atomic { st[n] == STOPPED && kill_sent[n] -> die(n) }
	/* Its parent, a member, reaps it, or need not. */
	:: d_step { st[n] == DEAD && parent[n] < N && st[parent[n]] == RUNS -> free(n) }
	:: st[n] == DEAD && parent[n] < N -> skip
#ifdef STRANGERS
	:: d_step { st[n] == FREE -> st[n] = STRANGER; parent[n] = WORLD }
	/* Strangers have children too. */
	:: atomic { st[n] == FREE ->
		if
		:: st[0] == STRANGER -> parent[n] = 0
		:: st[1] == STRANGER -> parent[n] = 1
		:: st[N - 1] == STRANGER -> parent[n] = N - 1
		:: else -> parent[n] = WORLD
		fi;
		st[n] = STRANGER }
	:: d_step { st[n] == STRANGER ->
		free(n);
		i = 0;
		do
		:: i == N -> break
		:: i < N && st[i] == STRANGER && parent[i] == n -> parent[i] = WORLD; i++
		:: else -> i++
		od;
		i = 0 }
#endif
	:: childless -> break
	od
}

/* ---- tree.c ---- */

/* A signal to whoever has the number N, if it is there. */
inline signal(n, is_kill)
{
	assert(st[n] != STRANGER);
	if
	:: st[n] == RUNS && !is_kill -> stop_sent[n] = true
	:: (st[n] == RUNS || st[n] == STOPPED) && is_kill -> kill_sent[n] = true
	:: else
	fi
}

inline visit(n, how)
{
	if
	:: how == STOP_MOVING && st[n] == RUNS -> moving = true; signal(n, false)
	:: how == STOP_UNSEEN && st[n] == RUNS -> signal(n, false)
	:: else -> assert(st[n] != STRANGER)
	fi
}

/* The identity in the list is that of the number's holder. */
#ifdef NO_MEETING
#define is_the_one(n) true
#else
#define is_the_one(n) (!stale[n])
#endif

inline add(n, as_child)
{
	listed[n] = true;
	child[n] = as_child;
	stale[n] = false;
	order[count] = n;
	count++
}

#define is_wanted(n, how) (!listed[n] && (how == JUST_LIST || !doomed[n]))

inline forget()
{
	k = 0;
	do
	:: k == N -> break
	:: k < N -> listed[k] = false; stale[k] = false; child[k] = false; order[k] = 0; k++
	od;
	k = 0;
	count = 0;
	moving = false
}

/* add_own_children(): nothing vanishes from this list but by our own reaping, and who is
 * handed to us comes behind the others: it is read until there is nobody else. */
inline add_own_children(how)
{
	do
	:: atomic { k = 0;
		do
		:: k == N -> break
		:: k < N && is_member(k) && parent[k] == OWNER && is_wanted(k, how) -> break
		:: else -> k++
		od;
		if
		:: k == N -> k = 0; break
		:: k < N -> add(k, true); visit(k, how); k = 0
		fi }
	od
}

/* consider(): K was listed as a child of READING. */
inline consider(how)
{
	/* open_pidfd(), identify() */
	d_step {
		fd_stale = false;
		proven = (st[k] != FREE);
#ifndef NO_PARENT_PROOF
		proven = proven && parent[k] == reading
#endif
	}
	/* still_there() */
#ifndef NO_PARENT_PROOF
	proven = proven && (child[reading] || (!parent_fd_stale && st[reading] != DEAD));
#endif
	d_step {
		if
		:: proven && !fd_stale -> add(k, false); visit(k, how)
		/* Who has the number now was not met: the pidfd reaches nobody. */
		:: proven && fd_stale -> add(k, false); stale[k] = true
		:: else
		fi;
		considered = N;
		fd_stale = false;
		proven = false
	}
}

/* add_children_of() */
inline add_children_of(p, how)
{
	/* meet_again() */
	d_step {
		if
		:: child[p] || (st[p] != FREE && is_the_one(p)) -> reading = p
		:: else
		fi;
		parent_fd_stale = false
	}
	do
	:: atomic { reading != N && k < N ->
		if
		:: st[k] != FREE && parent[k] == reading && is_wanted(k, how) ->
			considered = k
		:: vanished -> k++
		:: else -> k++
		fi }
		if
		:: considered != N -> consider(how); k++
		:: else
		fi
	:: atomic { reading == N || k == N ->
		k = 0; reading = N; vanished = false; parent_fd_stale = false; break }
	od
}

inline find(how)
{
	add_own_children(how);
	do
	:: at < count -> add_children_of(order[at], how); at++
	:: at >= count -> break
	od;
	at = 0
}

inline tree_kill()
{
	at = count;
	do
	:: at > 0 ->
		/* meet_again() */
		d_step {
			at--;
			k = order[at];
			considered = k;
			fd_stale = false;
			proven = child[k] || (st[k] != FREE && is_the_one(k))
		}
		d_step {
			if
			:: proven && !fd_stale && st[k] != FREE ->
				signal(k, true);
				doomed[k] = true;
				reached = true
			:: else
			fi;
			k = 0;
			considered = N;
			fd_stale = false;
			proven = false
		}
	:: at == 0 -> break
	od
}

/* ---- reaper.c ---- */

inline reap()
{
	k = 0;
	childless = true;
	do
	:: k == N -> break
	:: k < N && st[k] == DEAD && parent[k] == OWNER ->
		free(k);
		doomed[k] = false; /* tree_reaped() */
		died = true;
		k++
	:: k < N && lives(k) && parent[k] == OWNER -> childless = false; k++
	:: else -> k++
	od;
	k = 0
}

inline pardon()
{
	k = 0;
	do
	:: k == N -> break
	:: k < N -> doomed[k] = false; k++
	od;
	k = 0
}

proctype Owner()
{
	byte k, at, rounds, idle;
	bool proven, reached, died, later;

	do
#ifndef SLOW_DEATHS
	:: atomic { !kill_sent[0] && !kill_sent[1] && !kill_sent[N - 1] ->
		reap(); forget() }
#else
	:: atomic { reap(); forget() }
#endif
		if
		:: childless -> break
		:: else
		fi;
		/* kill_round() */
		if
#ifndef NO_FREEZE
		:: later ->
			/* tree_freeze() */
			freezing = true;
			find(STOP_UNSEEN);
			do
			:: atomic { forget() }
				find(STOP_MOVING);
				if
				:: moving
				:: !moving -> break
				fi
			od
		:: !later -> find(JUST_LIST)
#else
		:: true -> find(JUST_LIST)
#endif
		fi;
#ifdef REAP_BETWEEN
		atomic { reap() }
		childless = false;
#endif
		tree_kill();
		atomic {
			forget();
#ifdef PARDON_WHEN_IDLE
			if
			:: died || !later -> idle = 0
			:: else -> idle = (idle < 1 -> idle + 1 : 1)
			fi;
			if
			:: idle == 1 && !reached -> pardon()
			:: else
			fi;
#else
			rounds = (rounds + 1) % PARDON_ROUNDS;
			if
			:: rounds == 0 -> pardon()
			:: else
			fi;
#endif
			freezing = false;
			died = false;
			reached = false;
			later = true
		}
	od
}

init {
	atomic {
		st[0] = RUNS;
		parent[0] = OWNER;
		run Number(0);
		run Number(1);
#if N > 2
		run Number(2);
#endif
#if N > 3
		run Number(3);
#endif
		run Owner()
	}
}

ltl ends { <> childless }
