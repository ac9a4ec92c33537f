#!/bin/sh
# core.sh PART...: the core of what treewrap promises, in whatever world this runs.
#
#   beside   treewrap is one process among others
#   first    treewrap is process 1: $FIRST TREEWRAP starts it as that
#   cgroup   with --contain cgroup
#   pidns    with --contain pidns
#   bombs    fork bombs: in a virtual machine only
#   control  some checks, quickly, for something that is not treewrap
#   refused  there are no subreapers here, so treewrap is to say so and to run nothing
#
# Needs what busybox has. Prints a line for each check, and "TOTAL passed failed" behind each part.
#
# That nothing is left is not looked up in /proc, which shows nothing in some of these worlds.
# Every process of a tree inherits a descriptor that holds a lock, so if the lock is free when
# treewrap returns none of them lives. The first check sees that the lock tells.
#
# TREEWRAP   the program
# FIRST      what makes it process 1, "unshare --pid --fork" for example
# shellcheck disable=SC2016 # what is not expanded here is by another shell
set -u

: "${TREEWRAP:?}" "${FIRST=}"
all_passed=yes runs=0
dir=$(mktemp -d)
export dir
trap 'rm -rf "$dir"' EXIT

# ---- running treewrap ----

# Sets up the files of one run; the lock is a new one, so that what one run has left fails no
# other.
prepare() {
	runs=$((runs + 1))
	lock=$dir/lock.$runs up=$dir/up.$runs out=$dir/out.$runs events=$dir/events.$runs
	export up
	: >"$up"
}

is_free() { flock -n "$lock" true; }

# Runs treewrap with the arguments. Sets $status, and $left at the moment of its return.
run() {
	prepare
	# shellcheck disable=SC2086 # it may be words
	{ flock 9; exec $treewrap "$@"; } 9>"$lock" 8>"$events" >"$out" 2>&1 </dev/null &
	finish
}

# Starts treewrap in the background, as $pid. Its standard input is descriptor 7.
launch() {
	prepare
	# shellcheck disable=SC2086
	{ flock 9; exec $treewrap "$@"; } 9>"$lock" 8>"$events" >"$out" 2>&1 <&7 7<&- &
	pid=$!
}

finish() {
	wait $!
	status=$?
	if is_free; then left=no; else left=yes; fi
}

# until_true COMMAND...: for at most a minute.
until_true() {
	tries=600
	until "$@" 2>/dev/null; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || return 1
		sleep 0.1
	done
}

# Each process of a tree writes a line when it is in place.
are_up() { [ "$(wc -l <"$up")" -ge "$1" ]; }

# ---- saying what came of it ----

ok() {
	passed=$((passed + 1))
	echo "ok $part: $1"
}

not_ok() {
	failed=$((failed + 1))
	echo "FAIL $part: $1: $2; $(head -c 300 "$out" | tr '\n' ' ')"
}

# gives NAME STATUS: the last run ended with STATUS, and with it all that it had started.
gives() {
	if [ "$status" != "$2" ]; then
		not_ok "$1" "status $status and not $2"
	elif [ "$left" = yes ]; then
		not_ok "$1" "something is left"
	else
		ok "$1"
	fi
}

# is_true NAME COMMAND...
is_true() {
	name=$1
	shift
	if "$@"; then ok "$name"; else not_ok "$name" "not so: $*"; fi
}

says() { grep -q -- "$1" "$out"; }
tells() { grep -q -- "$1" "$events"; }

# ---- trees ----

# A process that says that it is there, and stays. Not for ever, should it be left.
export stay='echo $$ >>"$up"; exec sleep 120'
export stay_stubbornly='trap "" TERM INT HUP; echo $$ >>"$up"; sleep 120; sleep 120'

alone='sh -c "$stay" & wait'
in_a_session='setsid sh -c "$stay" & wait'
under_nohup='(trap "" HUP; exec sh -c "$stay") >/dev/null 2>&1 & wait'
by_two_forks='(setsid sh -c "(sh -c \"\$stay\" &)" &); sleep 120'
stubborn='setsid sh -c "$stay_stubbornly" & sh -c "$stay_stubbornly"'
stopped='setsid sh -c "echo \$\$ >>\"\$up\"; kill -STOP \$\$; sleep 120" & wait'
deep='sh -c "sh -c \"setsid sh -c \\\"\\\$stay\\\" & wait\" & wait" & wait'
many='i=0; while [ $i -lt 40 ]; do (setsid sh -c "$stay" &); i=$((i + 1)); done; sleep 120'

# times_out NAME PROCESSES TREE: on a slow machine the tree may not be there in the first
# second, so it gets more and more.
times_out() {
	for time in 1 5 25; do
		run -t $time -k 0.3 sh -c "$3"
		if are_up "$2"; then
			gives "timeout ends what is $1" 124
			return
		fi
	done
	not_ok "timeout ends what is $1" "it never came up"
}

# ---- what holds everywhere ----

the_lock_tells() {
	prepare
	: >"$out"
	{ flock 9; exec sh -c "$stay"; } 9>"$lock" >"$out" 2>&1 </dev/null &
	until_true are_up 1
	if is_free; then not_ok "the lock tells" "it does not"; else ok "the lock tells"; fi
	kill -KILL $!
	finish 2>/dev/null
	gives "the lock is free again" 137
}

statuses() {
	run true; gives "exit 0" 0
	run sh -c 'exit 7'; gives "exit 7" 7
	run sh -c 'exit 255'; gives "exit 255" 255
	run sh -c 'kill -TERM $$'; gives "ended by SIGTERM" 143
	run sh -c 'kill -KILL $$'; gives "ended by SIGKILL" 137
	run "$dir"; gives "a directory" 126
	: >"$dir/no-program"
	run "$dir/no-program"; gives "no permission" 126
	printf '#!/none\n' >"$dir/no-interpreter"
	chmod +x "$dir/no-interpreter"
	run "$dir/no-interpreter"; gives "no interpreter" 126
	run no-such-command; gives "not found" 127
	run --no-such-option true; gives "an unknown option" 125
	run -t soon true; gives "not a duration" 125
	run; gives "no command" 125
	run -e 7 sh -c 'exit 7'; gives "a remapped status" 0
	run sh -c 'echo to the output'; is_true "nothing else is said" [ "$(cat "$out")" = "to the output" ]
}

timeouts() {
	times_out "in the background" 1 "$alone"
	times_out "in another session" 1 "$in_a_session"
	times_out "deaf to SIGHUP, as under nohup," 1 "$under_nohup"
	times_out "forked twice" 1 "$by_two_forks"
	times_out "stopped" 1 "$stopped"
	times_out "deaf to SIGTERM" 2 "$stubborn"
	times_out "three levels deep" 1 "$deep"
	times_out "forty sessions" 40 "$many"
	run -t 60 sh -c 'exit 3'; gives "a timeout that does not come" 3
	run -t 0.5 --preserve-status sh -c 'sleep 120'; gives "its own status kept" 143
}

leftovers() {
	run sh -c "(setsid sh -c '$stay' &); until [ -s \$up ]; do sleep 0.01; done; exit 3"
	gives "leftovers stop" 3
	run --linger 10 sh -c '(setsid sh -c "sleep 0.5; echo done >>\"\$up\"" &); exit 3'
	gives "leftovers linger" 3
	is_true "they had the time" are_up 1
	run --leftovers wait sh -c '(setsid sh -c "sleep 1; echo done >>\"\$up\"" &); exit 4'
	gives "leftovers wait" 4
	is_true "they were waited for" are_up 1
	run --leftovers fail sh -c '(setsid sleep 120 &); exit 0'
	gives "leftovers fail" 123
	run --leftovers fail true
	gives "no leftovers, no failure" 0
}

# A fifo's writing end, held by a process: its death hangs up.
hold_lifeline() {
	rm -f "$dir/life"
	mkfifo "$dir/life"
	sh -c 'exec sleep 120 >"$dir/life"' &
	holder=$!
}

watches() {
	for what in --watch-stdin --watch-fd; do
		hold_lifeline
		exec 7<"$dir/life"
		if [ $what = --watch-fd ]; then
			launch --watch-fd 6 -k 0.3 sh -c "$stubborn" 6<&7
		else
			launch --watch-stdin -k 0.3 sh -c "$stubborn"
		fi
		exec 7<&-
		until_true are_up 2
		kill -KILL $holder
		wait $holder 2>/dev/null
		finish_launched
		gives "$what" 129
	done
}

finish_launched() {
	wait "$pid" 2>/dev/null
	status=$?
	if is_free; then left=no; else left=yes; fi
}

events() {
	run --status-fd 8 -t 1 -k 0.3 sh -c "$stubborn"
	gives "a run that is told of" 124
	is_true "start is told" tells '^{"event":"start".*"command":\["sh"'
	is_true "stop is told" tells '^{"event":"stop","cause":"timeout"'
	is_true "SIGKILL is told" tells '^{"event":"escalate","signal":"SIGKILL"'
	is_true "the end is told" tells '^{"event":"end","cause":"timeout".*"status":124'
	is_true "once" [ "$(grep -c '"event":"end"' "$events")" = 1 ]
	run --status-fd 8 no-such-command
	is_true "exec-failed is told" tells '^{"event":"end","cause":"exec-failed"'
}

# Orphans whose number is taken no more have been reaped.
orphans() {
	run sh -c 'i=0
		while [ $i -lt 30 ]; do (sh -c "echo \$\$ >>\"\$up\"; exit 1" &); i=$((i + 1)); done
		until [ "$(wc -l <"$up")" -ge 30 ]; do sleep 0.01; done
		tries=1000
		for pid in $(cat "$up"); do
			while kill -0 $pid 2>/dev/null; do
				tries=$((tries - 1))
				[ $tries -gt 0 ] || exit 9
				sleep 0.05
			done
		done
		exit 5'
	gives "orphans are reaped" 5
}

common() {
	the_lock_tells
	statuses
	timeouts
	leftovers
	watches
	events
	orphans
}

# ---- what is so for one among others ----

is_gone() { ! kill -0 "$1"; }

forwarding() {
	for signal in TERM USR1 HUP; do
		launch sh -c "trap 'exit 6' $signal; echo up >>\"\$up\"; while :; do sleep 0.05; done" \
			7</dev/null
		until_true are_up 1
		kill -$signal $pid
		finish_launched
		gives "SIG$signal is forwarded" 6
	done
	launch --stop-on TERM -k 0.3 sh -c "$stubborn" 7</dev/null
	until_true are_up 2
	kill -TERM $pid
	finish_launched
	gives "--stop-on" 129
}

killing() {
	launch --status-fd 8 sh -c "echo \$PPID >\"\$dir/reaper\"; $stubborn" 7</dev/null
	until_true are_up 2
	kill -KILL $pid
	finish_launched
	is_true "the shim is killed" [ "$status" = 137 ]
	is_true "... and the reaper ends the tree" until_true is_free
	is_true "... and itself" until_true is_gone "$(cat "$dir/reaper")"
	is_true "... and says why" tells '"cause":"shim-killed"'

	launch sh -c "echo \$PPID >\"\$dir/reaper\"; $stubborn" 7</dev/null
	until_true are_up 2
	kill -KILL "$(cat "$dir/reaper")"
	finish_launched
	gives "the reaper is killed" 125
	is_true "... and it is said" says "reaper was killed"

	# In a session of its own: the group is treewrap's alone.
	prepare
	{ flock 9; exec setsid sh -c 'echo $$ >"$dir/group"; exec "$@"' sh "$TREEWRAP" sh -c "$stubborn"; } \
		9>"$lock" >"$out" 2>&1 </dev/null &
	pid=$!
	until_true are_up 2
	kill -KILL "-$(cat "$dir/group")"
	finish_launched
	is_true "treewrap's group is killed" until_true is_free

	launch sh -c "echo \$\$ >\"\$dir/group\"; $in_a_session" 7</dev/null
	until_true are_up 1
	kill -KILL "-$(cat "$dir/group")"
	finish_launched
	gives "the command's group is killed" 137
}

parents() {
	prepare
	: >"$out"
	{ flock 9; exec sh -c '"$@" & wait' sh "$TREEWRAP" --status-fd 8 --watch-parent -k 0.3 \
		sh -c "$stubborn"; } 9>"$lock" 8>"$events" >"$out" 2>&1 </dev/null &
	pid=$!
	until_true are_up 2
	kill -KILL $pid
	wait "$pid" 2>/dev/null
	is_true "--watch-parent" until_true is_free
	is_true "... says why" until_true tells '"event":"end","cause":"parent".*"status":129'

	sleep 120 &
	other=$!
	launch --watch-pid $other -k 0.3 sh -c "$stubborn" 7</dev/null
	until_true are_up 2
	kill -KILL $other
	wait $other 2>/dev/null
	finish_launched
	gives "--watch-pid" 129
}

leaving() {
	run --leftovers leave sh -c "(setsid sh -c '$stay' &); until [ -s \$up ]; do sleep 0.01; done; exit 3"
	is_true "leftovers leave" [ "$status" = 3 ]
	is_true "... and are left" [ "$left" = yes ]
	kill -KILL "$(cat "$up")"
	until_true is_free
}

# Signals are confined since Linux 6.12, where Landlock is in use; before, it is refused.
may_confine() {
	release=$(uname -r)
	major=${release%%.*} minor=${release#*.}
	minor=${minor%%[!0-9]*}
	[ "$major" -gt 6 ] || { [ "$major" = 6 ] && [ "$minor" -ge 12 ]; }
}

rights() {
	run --confine-signals sh -c 'kill -9 $PPID; exit 3'
	if [ "$status" = 125 ]; then
		gives "signals cannot be confined" 125
		is_true "... which is said" says 'cannot confine'
	else
		gives "signals are confined" 3
		is_true "... where they can be" may_confine
	fi
	[ "$(id -u)" = 0 ] || return
	run --user 1000:1001 --caps none sh -c 'echo $(id -u):$(id -g); exit 4'
	gives "another user" 4
	is_true "... it is" says '^1000:1001$'
	run -t 5 -k 0.3 --user 1000:1001 sh -c 'setsid sleep 120 & exec sleep 120'
	gives "another user's tree" 124
	run --caps none sh -c 'chown 5 "$up" 2>/dev/null || exit 6'
	gives "no capabilities" 6
}

beside() {
	common
	rights
	forwarding
	killing
	parents
	leaving
}

# ---- as process 1 ----

first() {
	treewrap="$FIRST $TREEWRAP"
	common
	run --leftovers leave true
	gives "process 1 leaves nothing" 125
	run sh -c 'exit $PPID'
	gives "it is process 1" 1
	run sh -c 'trap "exit 6" USR1; kill -USR1 1; while :; do sleep 0.05; done'
	gives "process 1 forwards" 6
}

# ---- held together by more than parentage ----

contained() {
	treewrap="$TREEWRAP --contain $part"
	common
	forwarding
	run --status-fd 8 true
	is_true "start tells how" tells "\"contain\":\"$part\""
}

cgroup() { contained; }
pidns() { contained; }

# Without treewrap: what of all this notices?
control() {
	statuses
	timeouts
	leftovers
}

# ---- fork bombs ----

# In a cgroup that holds so many processes.
bombs() {
	echo +pids >/sys/fs/cgroup/cgroup.subtree_control
	mkdir /sys/fs/cgroup/bomb
	echo 300 >/sys/fs/cgroup/bomb/pids.max
	for contain in tree cgroup; do
		for kind in setsid group; do
			treewrap="sh /t/into.sh bomb $TREEWRAP --contain $contain"
			run -t 1 -k 0 --verify-for 120 /t/bomb mark $kind
			gives "a fork bomb, $kind, $contain" 124
		done
	done
}

# ---- where it cannot be done ----

refused() {
	run sh -c 'echo run'
	gives "without subreapers" 125
	is_true "... nothing is run" [ "$(grep -c '^run$' "$out")" = 0 ]
	is_true "... one line says why" [ "$(wc -l <"$out")" = 1 ]
	is_true "... and what to do" says 'PID 1'
}

for part; do
	treewrap=$TREEWRAP passed=0 failed=0
	$part
	echo "TOTAL $passed $failed"
	[ $failed = 0 ] || all_passed=no
done
[ $all_passed = yes ]
