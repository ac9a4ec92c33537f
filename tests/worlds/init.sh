#!/bin/sh
# init.sh VERSION shell|treewrap PART...: process 1 of a virtual machine. Runs core.sh, or
# becomes treewrap and has that run it.
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t cgroup2 none /sys/fs/cgroup
mkdir -p /dev/pts
mount -t devpts devpts /dev/pts

case $(uname -r) in
"$1".*) echo "ok init: this is Linux $1" ;;
*) echo "FAIL init: this is $(uname -r)" ;;
esac
first=$2
shift 2
export TREEWRAP=/t/treewrap FIRST="unshare -p -f --mount-proc"
if [ "$first" = treewrap ]; then
	# shellcheck disable=SC2016 # by the next shell
	exec $TREEWRAP -- sh -c 'sh /t/core.sh "$@"; reboot -f' sh "$@"
fi
sh /t/core.sh "$@"
# To the emulator's end.
reboot -f
