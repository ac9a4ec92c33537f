#!/bin/sh
# with-proc.sh COMMAND...: COMMAND in a PID namespace with its own /proc, where unshare cannot
# mount it for us.
mount -t proc proc /proc && exec "$@"
