#!/bin/sh
# check.sh: checks the models by spin and says for each what came of it. Fails if a claim
# that must hold does not, if a variant that must fail does not, or if a search was cut
# short. Leaves nothing behind.
set -eu

# For each search; the longest takes about a tenth of the time on a quiet machine.
SECONDS_MAX=150
MEGABYTES_MAX=2000
DEPTH_MAX=200000

models=$(cd "$(dirname "$0")" && pwd)
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
trap 'exit 1' INT TERM
wrong=0

# number PATTERN: the first number of the line of pan's output that holds PATTERN.
number() {
	grep -m1 "$1" out | grep -oE "$2" | grep -oE '[0-9]+([.]?[0-9]+e[+][0-9]+)?' | tail -1
}

# report RESULT EXPECTED MODEL CLAIM VARIANT...
report() {
	result=$1 expected=$2 model=$3 claim=$4
	shift 4
	verdict=ok
	if [ "$result" != "$expected" ]; then
		verdict="WRONG, expected: $expected"
		wrong=1
	fi
	printf '%-8s %-7s %-32s %10s %7s  %-6s %s\n' "$model" "$claim" "$*" \
		"$(number 'states, stored' '^ *[0-9.e+]+')" \
		"$(number 'depth reached' 'depth reached [0-9]+')" "$result" "$verdict"
}

# check holds|fails MODEL CLAIM VARIANT...: CLAIM is an ltl's name, or "asserts".
check() {
	expected=$1 model=$2 claim=$3
	shift 3
	defines=
	for variant; do
		defines="$defines -D$variant"
	done
	case $claim in
	asserts) compile=-DNOCLAIM\ -DSAFETY search= ;;
	ends) compile=-DNFAIR=3 search="-a -f -N $claim" ;;
	*) compile='' search="-a -N $claim" ;;
	esac
	rm -rf "$room/one" && mkdir "$room/one" && cd "$room/one"
	# shellcheck disable=SC2086 # lists of words
	if ! spin -a $defines "$models/$model.pml" >out 2>&1 ||
		! gcc -O2 -w -DCOLLAPSE -DMEMLIM=$MEGABYTES_MAX $compile -o pan pan.c >>out 2>&1; then
		cat out
		exit 1
	fi
	# shellcheck disable=SC2086
	timeout -k 1 $SECONDS_MAX ./pan $search -m$DEPTH_MAX >out 2>&1 || true
	if grep -q 'errors: 0' out && ! grep -qE 'Search not completed|depth too small' out; then
		result=holds
	elif grep -q 'errors: [1-9]' out && ls ./*.trail >/dev/null 2>&1; then
		result=fails
	else
		result='cut'
	fi
	report $result "$expected" "$model" "$claim" "$@"
}

printf '%-8s %-7s %-32s %10s %7s  %s\n' model claim variant states depth result

check holds guard safe MEMBERS=5
check holds guard safe MEMBERS=4 STOPS
check holds guard safe MEMBERS=4 RELAY
check holds guard cmd MEMBERS=4
check holds guard ends MEMBERS=4 STOPS
check holds guard ends MEMBERS=4 RELAY
check fails guard safe MEMBERS=4 NO_SUBREAPER
check fails guard cmd MEMBERS=4 NO_PARENT_CHECK
check fails guard cmd MEMBERS=4 NO_PDEATHSIG
check fails guard ends MEMBERS=4 NO_WATCH
check fails guard ends MEMBERS=4 NO_CLOSE
check fails guard ends MEMBERS=4 STOPS NO_WAKE
check fails guard ends MEMBERS=4 STOPS NO_STOP_CHECK

check holds freeze asserts N=3 STRANGERS
check holds freeze ends N=3
check fails freeze asserts N=3 STRANGERS NO_PARENT_PROOF
check fails freeze asserts N=3 STRANGERS NO_MEETING
check fails freeze asserts N=3 STRANGERS REAP_BETWEEN
check fails freeze ends N=3 NO_FREEZE
check fails freeze ends N=3 PARDON_WHEN_IDLE
check fails freeze ends N=3 SLOW_DEATHS
check fails freeze ends N=3 END_ANY_TIME

exit $wrong
