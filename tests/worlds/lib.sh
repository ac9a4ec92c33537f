# shellcheck shell=sh
# For kernels.sh and worlds.sh: rooms to run core.sh in, and a count of what came of it.
# Nothing outside build/worlds is changed.

cd "$(dirname "$0")/../.." || exit 1
top=$PWD here=$PWD/tests/worlds build=$PWD/build/worlds
treewrap=$top/treewrap-static
all_passed=0 all_failed=0
mkdir -p "$build"

# room DIRECTORY: a root file system with busybox, treewrap and these scripts in /t.
room() {
	rm -rf "$1"
	mkdir -p "$1/bin" "$1/proc" "$1/sys" "$1/dev" "$1/tmp" "$1/t" "$1/etc"
	chmod 1777 "$1/tmp"
	cp /bin/busybox "$1/bin/"
	for applet in $(/bin/busybox --list); do
		[ "$applet" = busybox ] || ln -s busybox "$1/bin/$applet"
	done
	# Debian's busybox has no flock.
	musl-gcc -Os -s -static -o "$1/bin/flock" "$here/flock.c" || return 1
	cp "$treewrap" "$1/t/treewrap" && cp "$here"/*.sh "$1/t/"
}

# world NAME SECONDS PARTS COMMAND...: runs it, for at most so long and with nothing left
# behind, and counts its lines. Fewer ends of parts than PARTS are a failure too: a world that
# is not there, or that broke down.
world() {
	name=$1 seconds=$2 parts=$3 log=$build/$1.log
	shift 3
	"$treewrap" -t "$seconds" "$@" </dev/null 2>&1 | head -c 1000000 | tr -d '\r' >"$log"
	passed=$(grep -c '^ok ' "$log")
	failed=$(grep -c '^FAIL ' "$log")
	ends=$(grep -c '^TOTAL' "$log")
	grep '^FAIL ' "$log" | sed "s/^FAIL/FAIL $name:/"
	if [ "$ends" != "$parts" ]; then
		echo "FAIL $name: $ends of $parts parts came to their end:"
		tail -n 5 "$log"
		failed=$((failed + 1))
	fi
	echo "$name: $passed passed, $failed failed"
	all_passed=$((all_passed + passed))
	all_failed=$((all_failed + failed))
}

# The sum, and the exit.
finish() {
	echo "$all_passed passed, $all_failed failed"
	[ "$all_failed" = 0 ] && [ "$all_passed" -gt 0 ]
	exit
}
