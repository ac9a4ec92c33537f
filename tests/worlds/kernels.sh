#!/bin/sh
# kernels.sh: core.sh on other kernels, Debian's, in virtual machines: Linux 5.10 (no
# cgroup.kill, no pidfs), 6.1 and 6.12. On each it runs twice: with a shell as the machine's
# first process, and with treewrap. A kernel that cannot be had is a failure.
set -u
# shellcheck source=tests/worlds/lib.sh
. "$(dirname "$0")/lib.sh"

# fetch SUITE: its kernel, as $vmlinuz. With package lists of its own: the machine's own stay
# as they are, and nothing is installed.
fetch() {
	vmlinuz=$build/kernels/$1/vmlinuz
	[ ! -e "$vmlinuz" ] || return 0
	rm -rf "$build/kernels/$1"
	mkdir -p "$build/kernels/$1"
	(
		cd "$build/kernels/$1" || exit 1
		mkdir -p lists/partial cache/archives/partial
		cat >list.sources <<-END
			Types: deb
			URIs: $mirror
			Suites: $1
			Components: main
			Architectures: amd64
			Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
		END
		apt="-q -o Dir::Etc::sourcelist=$PWD/list.sources -o Dir::Etc::sourceparts=/nonexistent
			-o Dir::State::lists=$PWD/lists -o Dir::Cache=$PWD/cache -o APT::Sandbox::User=root
			-o Acquire::Languages=none -o Acquire::Retries=3"
		# shellcheck disable=SC2086 # a list of words
		apt-get $apt update &&
			package=$(apt-cache $apt depends linux-image-cloud-amd64 |
				awk '/Depends:/ {print $2; exit}') &&
			apt-get $apt download "$package" &&
			dpkg-deb -x "$package"*.deb . && mv boot/vmlinuz-* vmlinuz &&
			rm -rf boot lib usr lists cache ./*.deb
	) >"$build/fetch-$1.log" 2>&1 || rm -f "$vmlinuz"
}

# boot NAME SECONDS PARTS ARGUMENT...: a machine with $vmlinuz, whose init gets the arguments.
# (With cmpxchg16b some kernels go astray under this emulator.)
boot() {
	name=$1 seconds=$2 parts=$3
	shift 3
	world "$name" "$seconds" "$parts" qemu-system-x86_64 -accel tcg -cpu qemu64,-cx16 -smp 1 \
		-m 512 -nodefaults -no-user-config -display none -serial stdio -monitor none \
		-no-reboot -kernel "$vmlinuz" -initrd "$build/initrd" \
		-append "console=ttyS0 quiet loglevel=3 oops=panic panic=-1 -- $*"
}

kernel() { # SUITE VERSION
	if ! fetch "$1"; then
		echo "FAIL linux-$2: no kernel:"
		tail -n 5 "$build/fetch-$1.log"
		all_failed=$((all_failed + 1))
		return
	fi
	boot "linux-$2" 1500 5 "$2" shell beside first pidns cgroup bombs
	boot "linux-$2-init" 900 1 "$2" treewrap beside
}

# shellcheck disable=SC2016 # apt-get's
mirror=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' | awk '$1 == "Debian" {print $2; exit}')
room "$build/machine" || exit 1
cp "$here/init.sh" "$build/machine/init"
cp "$top/tests/bin/bomb" "$build/machine/t/" || exit 1
(cd "$build/machine" && find . | cpio -o -H newc --quiet | gzip -1) >"$build/initrd" || exit 1
kernel bullseye 5.10
kernel bookworm 6.1
kernel trixie 6.12
finish
