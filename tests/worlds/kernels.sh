#!/bin/sh
# kernels.sh [VERSION...]: core.sh on other kernels, Debian's, in virtual machines: Linux 5.10 (no
# cgroup.kill, no pidfs), 6.1 and 6.12, and 6.1 on arm64. On each it runs twice: with a shell as the
# machine's first process, and with treewrap. A kernel that cannot be had is a failure.
set -u
# shellcheck source=tests/worlds/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=lists.sh
. "$top/lists.sh"

# packages SUITE ARCHITECTURE PACKAGE: fetches and unpacks it in the working directory. PACKAGE may
# be "kernel".
packages() {
	package=$3
	own_lists "$PWD" "$1" "$2" deb || return
	if [ "$package" = kernel ]; then
		# shellcheck disable=SC2086 # a list of words
		package=$(apt-cache $apt depends "linux-image-cloud-$2" |
			awk '/Depends:/ {print $2; exit}')
	fi
	# shellcheck disable=SC2086
	apt-get $apt download "$package" && dpkg-deb -x "$package"*.deb .
}

# fetch SUITE ARCHITECTURE: its kernel, as $vmlinuz.
fetch() {
	vmlinuz=$build/kernels/$1-$2/vmlinuz
	[ ! -e "$vmlinuz" ] || return 0
	rm -rf "$build/kernels/$1-$2"
	mkdir -p "$build/kernels/$1-$2"
	(
		cd "$build/kernels/$1-$2" || exit 1
		packages "$1" "$2" kernel && mv boot/vmlinuz-* vmlinuz &&
			rm -rf boot lib usr lists cache ./*.deb
	) >"$build/fetch-$1-$2.log" 2>&1 || rm -f "$vmlinuz"
	[ -e "$vmlinuz" ]
}

# boot NAME SECONDS PARTS ARGUMENT...: a machine with $vmlinuz, whose init gets the arguments.
# (With cmpxchg16b some kernels go astray under this emulator.)
boot() {
	name=$1 seconds=$2 parts=$3
	shift 3
	# shellcheck disable=SC2086 # a list of words
	world "$name" "$seconds" "$parts" $machine -accel tcg -smp 1 \
		-m 512 -nodefaults -no-user-config -display none -serial stdio -monitor none \
		-no-reboot -kernel "$vmlinuz" -initrd "$initrd" \
		-append "console=$console quiet loglevel=3 oops=panic panic=-1 -- $*"
}

wanted=" $* "
kernel() { # SUITE ARCHITECTURE VERSION
	name=linux-$3
	[ "$2" = amd64 ] || name=$name-$2
	case $wanted in
	"  " | *" ${name#linux-} "*) ;;
	*) return ;;
	esac
	if ! fetch "$1" "$2"; then
		echo "FAIL $name: no kernel:"
		tail -n 5 "$build/fetch-$1-$2.log"
		all_failed=$((all_failed + 1))
		return
	fi
	kernel_name=$name
	boot "$kernel_name" 1500 5 "$3" shell beside first pidns cgroup bombs
	boot "$kernel_name-init" 900 1 "$3" treewrap beside
}

# pack DIRECTORY: an initial root file system of it, as $initrd.
pack() {
	cp "$here/init.sh" "$1/init"
	initrd=$1.cpio.gz
	(cd "$1" && find . | cpio -o -H newc --quiet | gzip -1) >"$initrd"
}

# What runs in it is all of the other architecture: busybox, and what is built for it.
foreign_room() { # DIRECTORY ARCHITECTURE SUITE
	rm -rf "$build/foreign-$2"
	mkdir -p "$build/foreign-$2"
	(cd "$build/foreign-$2" && packages "$3" "$2" busybox-static) >"$build/foreign-$2.log" 2>&1 &&
		room "$1" &&
		cp "$build/foreign-$2/bin/busybox" "$1/bin/busybox" &&
		cp "$treewrap-$2" "$1/t/treewrap" &&
		sh "$top/static/build.sh" "$2" "build/worlds/flock-$2" "$here/flock.c" &&
		cp "$build/flock-$2" "$1/bin/flock" &&
		sh "$top/static/build.sh" "$2" "build/worlds/bomb-$2" "$top/tests/adversaries/bomb.c" &&
		cp "$build/bomb-$2" "$1/t/bomb"
}

machine="qemu-system-x86_64 -cpu qemu64,-cx16" console=ttyS0
room "$build/machine" && cp "$top/tests/bin/bomb" "$build/machine/t/" && pack "$build/machine" || exit 1
kernel bullseye amd64 5.10
kernel bookworm amd64 6.1
kernel trixie amd64 6.12
machine="qemu-system-aarch64 -M virt -cpu cortex-a57" console=ttyAMA0
foreign_room "$build/machine-arm64" arm64 bookworm && pack "$build/machine-arm64" || exit 1
kernel bookworm arm64 6.1
finish
