#!/bin/sh
# worlds.sh: core.sh where system calls or /proc are other than usual. As root. A world that
# cannot be had is a failure.
# shellcheck disable=SC2016 # what is not expanded here is by another shell
set -u
# shellcheck source=tests/worlds/lib.sh
. "$(dirname "$0")/lib.sh"

core=$here/core.sh
unshare_first="unshare --pid --fork --mount-proc"
room "$build/room" || exit 1
# For the ordinary user, who may not be able to reach this directory.
public=$(mktemp -d)
trap 'rm -rf "$public"' EXIT
chmod 755 "$public"
cp "$treewrap" "$core" "$public"

# What changes mounts does so in a mount namespace.
within_mounts() { # NAME MOUNT PARTS COMMAND
	world "$1" 600 "$3" unshare --mount sh -c "$2 && $4"
}

# core.sh must be able to fail: here treewrap is one that starts the command and that is all.
# In a PID namespace, for it leaves what it is to leave.
control() {
	printf '#!/bin/sh\n%s\n' \
		'while [ $# -gt 0 ]; do case $1 in -*) shift 2 ;; *) break ;; esac; done' \
		'"$@" & sleep 0.5; exit 0' >"$build/no-treewrap"
	chmod +x "$build/no-treewrap"
	"$treewrap" -t 300 --contain pidns env TREEWRAP="$build/no-treewrap" \
		sh "$core" control </dev/null >"$build/control.log" 2>&1
	caught=$(grep -c '^FAIL ' "$build/control.log")
	if [ "$caught" -ge 15 ]; then
		all_passed=$((all_passed + 1))
		echo "control: without treewrap $caught checks fail, as they should"
	else
		all_failed=$((all_failed + 1))
		echo "FAIL control: without treewrap no more than $caught checks fail"
	fi
}

gvisor() { # NAME SECONDS PARTS SCRIPT
	world "gvisor-$1" "$2" "$3" runsc --platform=ptrace --network=none --ignore-cgroups \
		"do" -root "$build/room" /bin/sh -c "TREEWRAP=/t/treewrap; export TREEWRAP; $4"
}

control
world host 600 3 env TREEWRAP="$treewrap" FIRST="$unshare_first" sh "$core" beside first pidns

# As in gVisor, there are no subreapers; children run by themselves, not emulated.
emulated() { # MACHINE PROGRAM
	world "qemu-user-$1" 600 2 env TREEWRAP="qemu-$1-static $2" FIRST="$unshare_first" \
		sh "$core" refused first
}
emulated "$(uname -m)" "$treewrap"
emulated aarch64 "$treewrap-arm64"
emulated riscv64 "$treewrap-riscv64"

within_mounts subset-pid "mount -t proc -o subset=pid proc /proc" 1 \
	"TREEWRAP=$treewrap sh $core beside"
within_mounts hidepid "mount -t proc -o hidepid=2 proc /proc" 1 \
	"TREEWRAP=$public/treewrap-static setpriv --reuid 65534 --regid 65534 --clear-groups \
	sh $public/core.sh beside"
within_mounts no-proc "mount -t tmpfs none /proc" 2 \
	"TREEWRAP=$treewrap FIRST='unshare --pid --fork' sh $core beside first"

within_mounts chroot "mount -t proc proc $build/room/proc && mount --bind /dev $build/room/dev" 2 \
	"TREEWRAP=/t/treewrap chroot $build/room /bin/sh /t/core.sh beside pidns"

gvisor beside 100 1 "sh /t/core.sh refused"
gvisor first 900 1 "FIRST='unshare -p -f sh /t/with-proc.sh' sh /t/core.sh first"
gvisor no-proc 900 1 "FIRST='unshare -p -f' sh /t/core.sh first"

world docker 900 3 sh "$here/docker.sh" "$build/room"
finish
