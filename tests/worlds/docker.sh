#!/bin/sh
# docker.sh ROOM: core.sh in containers of a Docker engine of our own, with its default seccomp
# profile and capabilities; beside a shell as process 1, and below a treewrap that is process 1.
set -u

work=$(mktemp -d)
DOCKER_HOST=unix://$work/socket
export DOCKER_HOST

dockerd -H "$DOCKER_HOST" --data-root "$work/data" --exec-root "$work/exec" -p "$work/pid" \
	--iptables=false --ip6tables=false --bridge=none --ip-forward=false --ip-masq=false \
	--storage-driver=vfs --exec-opt native.cgroupdriver=cgroupfs >"$work/log" 2>&1 &
engine=$!

clean_up() {
	kill "$engine"
	wait "$engine"
	find /sys/fs/cgroup -maxdepth 2 -name docker -type d -exec rmdir {} + 2>/dev/null
	rm -rf "$work"
}
trap clean_up EXIT
# treewrap's, when time is over.
trap exit TERM

tries=600
until docker version >/dev/null 2>&1; do
	tries=$((tries - 1))
	if [ $tries = 0 ]; then
		cat "$work/log"
		exit 1
	fi
	sleep 0.1
done
tar -C "$1" -c . | docker import - room:1 >/dev/null || exit 1

in_container() {
	docker run --rm --network none -e TREEWRAP=/t/treewrap room:1 "$@"
}

# is NAME STATUS
is() {
	if [ $? = "$2" ]; then echo "ok docker: $1"; else echo "FAIL docker: $1"; fi
}

in_container grep -q 'Seccomp:.*2' /proc/self/status
is "calls are filtered" 0
in_container /t/treewrap -- sh -c 'sleep 120 & exit 7'
is "its status" 7
in_container /t/treewrap -- no-such-command
is "its 127" 127
in_container /t/treewrap -t 0.5 -k 0.5 -- sh -c 'setsid sleep 120 & sleep 120'
is "its timeout" 124
echo "TOTAL"
in_container sh /t/core.sh beside
in_container /t/treewrap -- sh /t/core.sh beside
