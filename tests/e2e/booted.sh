#!/bin/sh
# booted.sh UNITS: becomes systemd, the first process of namespaces that the caller has made,
# with the units of that directory and no others. What it would change of the machine is
# hidden from it or read-only.
set -e

mount --make-rprivate /
umount -R -l /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
mount -t tmpfs none /run
echo 0123456789abcdef0123456789abcdef >/run/machine-id
mount --bind /run/machine-id /etc/machine-id
mount --bind /proc/sys /proc/sys
mount -o remount,ro,bind /proc/sys

mkdir /run/dev
mount -t tmpfs none /run/dev
for name in null zero full random urandom tty; do
	touch /run/dev/$name
	mount --bind /dev/$name /run/dev/$name
done
mount --move /run/dev /dev

container=room SYSTEMD_UNIT_PATH=$1
export container SYSTEMD_UNIT_PATH
exec /lib/systemd/systemd --system --unit=room.target --log-target=console --show-status=no
