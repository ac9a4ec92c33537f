/*
 * Shim and reaper guard each other: whatever is killed, and when, is a member of the tree
 * left running?
 *
 * What is modelled, and the C that it stands for:
 *   Shim     shim.c: be_shim(), guard(), reaper_has_ended(), stop_too(),
 *            outcome_of_reaper(); then reaper_take_over() of reaper.c
 *   Reaper   shim.c: be_reaper(); start.c: reaper_start(); reaper.c: loop(),
 *            take_signals(), reap(), look_at_children(), take_link(), reaper_stop();
 *            stop.c: reaper_kill_round(); command.c: command_start()
 *   Member   the command (command.c: child(), then anything) and what it or another
 *            member forks, at any time: orphans are made by their parents' ends
 *   Relay    (with -DRELAY) relay.c: relay_run(); shim.c: be_shim_behind_relay()
 *   Killer   sends SIGKILL to each of treewrap's processes once at most, or not, at any
 *            step; and SIGSTOP, once, to one of them while both live
 *   LINK     link.c: who holds which end; it hangs up when the last holder has gone
 * The kernel's part: an end in two steps, descriptors first, then all at once under the
 * task lock: children to the nearest subreaper above that has not begun to end, their
 * PDEATHSIG, the signal to the parent, zombie. SIGCONT continues what is stopped and takes
 * a pending stop back. An external SIGKILL acts at once, for the killer may come late; one
 * sent by treewrap acts later, and leaves time to fork.
 *
 * What is left out:
 *   the ladder's polite signals, options, watches: stop() goes to KILLING; a timeout may
 *   come at any time;
 *   how a round finds and kills in a moving tree: freeze.pml. Here a round meets all that
 *   are there, and only so many members are forked that rounds are bounded;
 *   survivors, --leftovers leave, PID 1; an enemy that stops the survivor again after the
 *   other's death, or the reaper before it has set its PDEATHSIG; subreapers among the
 *   members; a clone() that fails; memory ordering weaker than one step after the other.
 *
 * What is claimed, with DEAD = zombie or reaped:
 *   safe  When shim and reaper are dead, no member runs, or: both were killed by SIGKILL
 *         from outside and the later of them had not been told ECHILD yet ("before either
 *         could act": before the survivor had finished). "Runs" is: lives, without SIGKILL
 *         pending; the command before its exec that still is to ask getppid() does not.
 *   cmd   When the reaper is dead, and the shim or not, the command is dead or has SIGKILL
 *         pending or ends by itself before its exec; if it has kept its PDEATHSIG.
 *   ends  (weakly fair) If one of shim and reaper is dead, so is in the end the other.
 *         With "safe": and the tree is empty then.
 * Variants that must fail (see check.sh): NO_WATCH, NO_SUBREAPER, NO_PARENT_CHECK,
 * NO_PDEATHSIG, NO_WAKE, NO_STOP_CHECK, NO_CLOSE.
 */
#ifdef RELAY
#define ROOT RELAY_ID
#else
#define ROOT INIT
#endif

#define SHIM	 0
#define REAPER	 1
#define CMD	 2
#ifndef MEMBERS
#define MEMBERS	 5 /* numbers CMD..MEMBERS-1 */
#endif
#define RELAY_ID MEMBERS
#define INIT	 (MEMBERS + 1)

/* What a process is: */
#define UNBORN	0
#define LIVE	1
#define EXITING 2 /* its descriptors are closed, its children are its own still */
#define ZOMBIE	3
#define REAPED	4

/* PDEATHSIG: */
#define NO_SIGNAL 0
#define BY_KILL	  1
#define BY_CONT	  2

/* Scratch of single steps, not part of a state. */
hidden byte heir, c;

byte st[INIT]; /* RELAY_ID stays UNBORN where there is none */
byte parent[INIT];
byte pdeath[INIT];
bool subreaper[INIT];
bool kill_pending[INIT];
bool told[INIT];      /* SIGCHLD, or the SIGCONT of a child's death, is to be read */
bool stopped[INIT];   /* by SIGSTOP or a job's stop */
bool killed[INIT];    /* from outside */
bool childless[INIT]; /* waitid(2) has answered ECHILD */
bool stop_pending;    /* the shim's own, blocked: stop_too() */
bool reaper_stop_told;

/* The link: who else than its owner holds an end. */
bool reaper_has_shims_end, shim_has_reapers_end, command_has_reapers_end;
bool command_runs_program; /* its exec is over */
bool command_asked_parent;
bool command_kept_pdeathsig = true;
bool command_stopped; /* LINK_STOPPED is on the link */

#define gone(p) (st[p] == EXITING || st[p] == ZOMBIE || st[p] == REAPED)
#define dead(p) (st[p] == ZOMBIE || st[p] == REAPED)
#define up(p)	(st[p] == LIVE && !stopped[p])
#define hup_at_reaper (gone(SHIM) && !reaper_has_shims_end)
#define hup_at_shim                                                                      \
	(gone(REAPER) && !shim_has_reapers_end && !command_has_reapers_end)
/* The command's progress pipe: exec or end closes it. */
#define decided (command_runs_program || gone(CMD))

/* ---- the kernel ---- */

inline continue_process(p)
{
	stopped[p] = false;
	if
	:: p == SHIM -> stop_pending = false
	:: else
	fi
}

/* exit_notify(): one step under the task lock. */
inline notify(p)
{
	heir = parent[p];
	do
	:: heir == INIT -> break
	:: heir != INIT && subreaper[heir] && st[heir] == LIVE -> break
	:: else -> heir = parent[heir]
	od;
	c = 0;
	do
	:: c == INIT -> break
	:: c < INIT ->
		if
		:: st[c] != UNBORN && st[c] != REAPED && parent[c] == p ->
			parent[c] = heir;
			if
			:: st[c] == LIVE && pdeath[c] == BY_KILL && c < CMD ->
				st[c] = EXITING; killed[c] = true
			:: st[c] == LIVE && pdeath[c] == BY_KILL && c >= CMD ->
				kill_pending[c] = true
			:: st[c] == LIVE && pdeath[c] == BY_CONT ->
				continue_process(c)
			:: st[c] == ZOMBIE && heir == INIT ->
				st[c] = REAPED
			:: st[c] == ZOMBIE && heir < CMD ->
				told[heir] = true
			:: else
			fi
		:: else
		fi;
		c++
	od;
	if
	:: parent[p] == INIT -> st[p] = REAPED
	:: else ->
		st[p] = ZOMBIE;
		told[parent[p]] = told[parent[p]] || parent[p] < CMD;
#ifndef NO_WAKE
		/* The signal of its death is SIGCONT. */
		if
		:: p == REAPER && parent[p] == SHIM -> continue_process(SHIM)
		:: else
		fi
#endif
	fi;
	/* Nothing of these is asked for any more: fewer states. */
	told[p] = false;
	stopped[p] = false;
	kill_pending[p] = false;
	pdeath[p] = NO_SIGNAL
}

/* ---- reaper.c: what shim and reaper do to a tree ---- */

/* reap(): all that are dead now; who dies behind it is told of later. */
inline reap(owner)
{
	c = 0;
	childless[owner] = true;
	do
	:: c == INIT -> break
	:: c < INIT && st[c] == ZOMBIE && parent[c] == owner -> st[c] = REAPED; c++
	:: c < INIT && (st[c] == LIVE || st[c] == EXITING) && parent[c] == owner ->
		childless[owner] = false; c++
	:: else -> c++
	od;
	c = 0
}

/* kill_round(): all that descend from OWNER now. Who is forked between one signal and the
 * next is forked behind all of them here, by one whose SIGKILL is on the way. */
inline kill_round(owner)
{
	c = CMD;
	do
	:: c == MEMBERS -> break
	:: c < MEMBERS && st[c] == LIVE ->
		heir = parent[c];
		do
		:: heir == INIT || heir == owner -> break
		:: else -> heir = parent[heir]
		od;
		kill_pending[c] = kill_pending[c] || heir == owner;
		c++
	:: else -> c++
	od;
	c = 0
}

/* loop(), to ECHILD: wait and reap; then look at the link and the clock. A hangup that
 * comes between is there in the next turn too. */
inline loop(owner, killing, has_timeout)
{
	do
	:: d_step { up(owner) && (told[owner] || killing || (owner == REAPER && hup_at_reaper)) ->
		told[owner] = false;
		reap(owner) }
		if
		:: atomic { up(owner) && childless[owner] -> break }
		:: d_step { up(owner) && !childless[owner] ->
			if
			:: killing || (owner == REAPER && st[CMD] == REAPED) -> killing = true
#ifndef NO_WATCH
			:: owner == REAPER && hup_at_reaper -> killing = true
#endif
			:: else
			fi;
			if
			:: killing -> kill_round(owner)
			:: else
			fi }
		fi
	/* A deadline. */
	:: d_step { up(owner) && owner == REAPER && !killing && has_timeout ->
		killing = true;
		kill_round(owner) }
	od
}

/* ---- treewrap's processes ---- */

proctype Reaper()
{
	bool killing, has_timeout;

	st[REAPER] != UNBORN;
	{
		if
		:: has_timeout = true
		:: skip
		fi;
		/* be_reaper() */
#ifndef NO_CLOSE
		atomic { up(REAPER) -> reaper_has_shims_end = false }
#endif
		atomic { up(REAPER) -> pdeath[REAPER] = BY_CONT }
		atomic { up(REAPER) -> subreaper[REAPER] = true }
		/* command_start() */
		atomic { up(REAPER) ->
			st[CMD] = LIVE;
			parent[CMD] = REAPER;
			command_has_reapers_end = true }
		/* wait_for_exec(): the pipe, the link or a deadline */
		if
		:: atomic { up(REAPER) && decided -> skip }
		:: atomic { up(REAPER) && !decided && has_timeout -> skip }
			atomic { up(REAPER) -> kill_pending[CMD] = (st[CMD] == LIVE) }
#ifndef NO_WATCH
		:: atomic { up(REAPER) && hup_at_reaper -> skip }
			atomic { up(REAPER) -> kill_pending[CMD] = (st[CMD] == LIVE) }
			/* look_at_what_came_first() */
			d_step { up(REAPER) -> killing = true; kill_round(REAPER) }
#endif
		fi;
		told[REAPER] = true;
		loop(REAPER, killing, has_timeout);
		atomic { up(REAPER) -> st[REAPER] = EXITING }
	} unless { st[REAPER] == EXITING }
	d_step { notify(REAPER); killing = false; has_timeout = false }
}

proctype Shim()
{
	bool killing, reaper_lives;

	st[SHIM] != UNBORN;
	{
#ifdef RELAY
		/* be_shim_behind_relay() */
		atomic { up(SHIM) -> pdeath[SHIM] = BY_KILL }
		atomic { up(SHIM) ->
			if
			:: parent[SHIM] != RELAY_ID -> st[SHIM] = EXITING
			:: else
			fi }
#endif
#ifndef NO_SUBREAPER
		atomic { up(SHIM) -> subreaper[SHIM] = true }
#endif
		/* be_shim(): link_open(), clone() */
		atomic { up(SHIM) ->
			reaper_has_shims_end = true;
			shim_has_reapers_end = true;
			st[REAPER] = LIVE;
			parent[REAPER] = SHIM }
		atomic { up(SHIM) -> shim_has_reapers_end = false }
		/* guard() */
		do
		/* reaper_has_ended() */
		:: atomic { up(SHIM) && st[REAPER] == ZOMBIE -> st[REAPER] = REAPED; break }
		:: d_step { up(SHIM) && st[REAPER] != ZOMBIE ->
			if
			:: reaper_stop_told ->
				reaper_stop_told = false; continue_process(REAPER)
			:: else
			fi }
			/* poll(); where the link has hung up, the death is a moment away. */
			atomic { up(SHIM) && (told[SHIM] || hup_at_shim || command_stopped) ->
				told[SHIM] = false }
			if
			:: command_stopped ->
				/* stop_too() */
				atomic { up(SHIM) -> command_stopped = false; stop_pending = true }
				atomic { up(SHIM) ->
#ifdef NO_STOP_CHECK
					reaper_lives = true
#else
					reaper_lives = (st[REAPER] != ZOMBIE)
#endif
				}
				atomic { up(SHIM) ->
					stopped[SHIM] = (stop_pending && reaper_lives);
					stop_pending = false;
					reaper_lives = false }
			:: else
			fi
		od;
		/* outcome_of_reaper(): reaper_take_over(), unless it ended by itself */
		if
		:: killed[REAPER] ->
			d_step { up(SHIM) -> killing = true; kill_round(SHIM) }
			loop(SHIM, killing, false)
		:: else
		fi;
		atomic { up(SHIM) -> st[SHIM] = EXITING }
	} unless { st[SHIM] == EXITING }
	d_step { notify(SHIM);
		killing = false; reaper_lives = false;
		stop_pending = false; command_stopped = false; reaper_stop_told = false }
}

#ifdef RELAY
proctype Relay()
{

	{
		atomic { up(RELAY_ID) -> st[SHIM] = LIVE; parent[SHIM] = RELAY_ID }
		atomic { up(RELAY_ID) && st[SHIM] == ZOMBIE -> st[SHIM] = REAPED }
		atomic { up(RELAY_ID) -> st[RELAY_ID] = EXITING }
	} unless { st[RELAY_ID] == EXITING }
	d_step { notify(RELAY_ID) }
}
#endif

/* ---- the tree ---- */

proctype Member(byte me)
{

	st[me] == LIVE;
	if
	:: me == CMD ->
		/* child() of command.c */
#ifndef NO_PDEATHSIG
		atomic { st[me] == LIVE -> pdeath[me] = BY_KILL }
#endif
		atomic { st[me] == LIVE ->
			command_asked_parent = true;
#ifndef NO_PARENT_CHECK
			kill_pending[me] = kill_pending[me] || parent[me] != REAPER
#endif
		}
		atomic { st[me] == LIVE ->
			command_runs_program = !kill_pending[me];
			command_has_reapers_end = false }
	:: else
	fi;
	do
	:: st[me] == LIVE && !kill_pending[me] -> skip /* it goes on */
	:: d_step { st[me] == LIVE -> notify(me) }
	/* Forks, also while its SIGKILL is on the way. */
	:: d_step { st[me] == LIVE && (me != CMD || command_runs_program) &&
		    st[MEMBERS - 1] == UNBORN ->
		c = CMD + 1;
		do
		:: st[c] == UNBORN -> st[c] = LIVE; parent[c] = me; break
		:: else -> c++
		od;
		c = 0 }
	:: d_step { st[me] == LIVE && !kill_pending[me] && pdeath[me] != NO_SIGNAL ->
		pdeath[me] = NO_SIGNAL; command_kept_pdeathsig = false }
	/* It reaps, or ignores SIGCHLD. */
	:: d_step { st[me] == LIVE && st[MEMBERS - 1] == ZOMBIE &&
		    parent[MEMBERS - 1] == me ->
		st[MEMBERS - 1] = REAPED }
	:: st[me] != LIVE -> break
	od
}

/* ---- the world ---- */

proctype Killer()
{
	bool has_stopped;

	do
	:: atomic { st[SHIM] == LIVE -> st[SHIM] = EXITING; killed[SHIM] = true }
	:: atomic { st[REAPER] == LIVE -> st[REAPER] = EXITING; killed[REAPER] = true }
#ifdef RELAY
	:: atomic { st[RELAY_ID] == LIVE -> st[RELAY_ID] = EXITING; killed[RELAY_ID] = true }
#endif
#ifdef STOPS
	:: atomic { !has_stopped && up(SHIM) && st[REAPER] == LIVE ->
		stopped[SHIM] = true; has_stopped = true }
	:: atomic { !has_stopped && up(REAPER) && st[SHIM] == LIVE &&
	   pdeath[REAPER] == BY_CONT ->
		stopped[REAPER] = true; has_stopped = true;
		reaper_stop_told = true; told[SHIM] = true }
	/* Ctrl-Z: the command stops, the reaper has told the shim. */
	:: atomic { !has_stopped && up(REAPER) && command_runs_program ->
		command_stopped = true; has_stopped = true }
#endif
	:: break
	od
}

init {
	atomic {
#ifdef RELAY
		st[RELAY_ID] = LIVE;
		parent[RELAY_ID] = INIT;
		run Relay();
#else
		st[SHIM] = LIVE;
#endif
		parent[SHIM] = ROOT;
		run Shim();
		run Reaper();
		run Member(CMD);
		run Member(CMD + 1);
#if MEMBERS > 4
		run Member(CMD + 2);
#endif
		run Killer()
	}
}

/* ---- what is claimed ---- */

#define runs(m) (st[m] == LIVE && !kill_pending[m])
#define command_runs                                                                     \
	(runs(CMD) && (command_asked_parent || command_runs_program))
#define tree_runs (command_runs || runs(CMD + 1) || runs(MEMBERS - 1))
#define none_left                                                                        \
	((dead(SHIM) || st[SHIM] == UNBORN) && (dead(REAPER) || st[REAPER] == UNBORN))
#define could_not_act                                                                    \
	(killed[SHIM] && killed[REAPER] && !childless[SHIM] && !childless[REAPER])

ltl safe { [] (none_left -> (!tree_runs || could_not_act)) }
ltl cmd { [] ((dead(REAPER) && command_kept_pdeathsig) -> !command_runs) }
ltl ends {
	[] ((dead(SHIM) || dead(REAPER) || dead(RELAY_ID)) -> <> none_left)
}
