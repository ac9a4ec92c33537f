#!/bin/sh
# What treewrap is for, shown with ps: the same command under timeout(1) and under treewrap.
set -u
cd "$(dirname "$0")" || exit 1

# A number of seconds that no other sleep on this machine has.
unique=1000.$$
command="setsid sleep $unique & nohup sleep $unique & (setsid sh -c 'sleep $unique &' &); sleep $unique"

left() {
	# shellcheck disable=SC2009 # pgrep shows neither parent nor session
	ps -eo pid,ppid,sid,args | grep "[s]leep $unique\$"
}

show() {
	echo
	echo "\$ $1 2 sh -c \"$command\""
	began=$(date +%s%N)
	$1 2 sh -c "$command" >/dev/null 2>&1
	status=$?
	took=$((($(date +%s%N) - began) / 1000000))
	echo "  returned $status after $took ms; what is left of it:"
	left | sed 's/^/  /'
	[ -n "$(left)" ] || echo "  (nothing)"
}

show "timeout"
left | while read -r pid rest; do
	# Ours, by the number that stands in their command line.
	kill -KILL "$pid" && : "$rest"
done
show "./treewrap --timeout"
[ "$status" = 124 ] && [ -z "$(left)" ]
