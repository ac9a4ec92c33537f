#!/bin/sh
# build.sh ARCH OUTPUT FLAG...: builds treewrap as one static program, with musl, for Debian's
# architecture ARCH (amd64, arm64, riscv64). FLAG... are the compiler's, and the sources.
#
# libcap-ng is built from the source that Debian packages, each function in a section of its own,
# so that only the few that are used are in the program; and without the constructor that reads
# /proc at every start (the library calls the same function when it is first used). For another
# architecture than this machine's the compiler is Debian's cross compiler and musl comes out of
# that architecture's package, unpacked and not installed. All of it is kept in build/static.
set -eu

arch=$1 output=$2
shift 2
top=$(cd "$(dirname "$0")/.." && pwd)
build=$top/build/static
# shellcheck source=lists.sh
. "$top/lists.sh"

fail() {
	tail -n 5 "$build/fetch.log" >&2
	echo "static/build.sh: cannot get $1" >&2
	exit 1
}

# The source of libcap-ng, as $source.
fetch_source() {
	source=$build/libcap-ng
	[ ! -e "$source/src/cap-ng.c" ] || return 0
	rm -rf "$build/source"
	mkdir -p "$build/source" "$source"
	# shellcheck disable=SC2086 # a list of words
	(cd "$build/source" && own_lists "$PWD" bookworm amd64 deb-src &&
		apt-get $apt source --download-only libcap-ng) \
		>"$build/fetch.log" 2>&1 || fail "the source of libcap-ng"
	tar -xf "$build"/source/libcap-ng_*.orig.tar.* -C "$source" --strip-components=1
}

# musl for ARCH out of SUITE's package, as $musl (include and lib).
fetch_musl() { # SUITE TRIPLET
	musl=$build/$arch/usr
	[ ! -e "$musl/lib/$2/libc.a" ] || return 0
	rm -rf "${build:?}/$arch"
	mkdir -p "$build/$arch"
	# shellcheck disable=SC2086
	(cd "$build/$arch" && own_lists "$PWD" "$1" "$arch" deb &&
		apt-get $apt download musl-dev && dpkg-deb -x musl-dev_*.deb .) \
		>"$build/fetch.log" 2>&1 || fail "musl for $arch"
}

# The kernel's headers by themselves, in $headers: glibc's must not come into sight.
link_headers() { # DIRECTORY...
	headers=$build/headers-$arch
	mkdir -p "$headers"
	for directory; do
		for name in linux asm asm-generic; do
			[ ! -d "$directory/$name" ] || ln -sfn "$directory/$name" "$headers/$name"
		done
	done
}

# Sets $compile and $link, the beginning and the end of a command, for TRIPLE's compiler.
cross() { # TRIPLE MUSL_TRIPLET SUITE
	fetch_musl "$3" "$2"
	link_headers "/usr/$1/include"
	lib=$musl/lib/$2
	compile="$1-gcc -nostdinc -isystem $musl/include/$2 -idirafter $headers"
	link="-nostdlib -nostartfiles $lib/crt1.o $lib/crti.o"
	link_end="-L$lib -Wl,--start-group -lc -lgcc -Wl,--end-group $lib/crtn.o"
	objcopy=$1-objcopy
}

mkdir -p "$build"
link='' link_end='' objcopy=objcopy
if [ "$arch" = "$(dpkg --print-architecture)" ]; then
	link_headers /usr/include "/usr/include/$(gcc -print-multiarch)"
	compile="musl-gcc -idirafter $headers"
elif [ "$arch" = arm64 ]; then
	cross aarch64-linux-gnu aarch64-linux-musl bookworm
elif [ "$arch" = riscv64 ]; then
	# Debian has it since trixie.
	cross riscv64-linux-gnu riscv64-linux-musl trixie
else
	echo "static/build.sh: no static program is built for $arch" >&2
	exit 1
fi

fetch_source
objects=$build/objects-$arch
mkdir -p "$objects"
# What treewrap does not ask of it: to cut bounding sets, and to tell what a process has, which
# takes all of scanf(3).
printf '%s\n' '#include <stdio.h>' '#include <sys/prctl.h>' '#undef PR_CAPBSET_DROP' \
	'#define sscanf(...) 0' >"$objects/config.h"
small="-std=gnu11 -D_GNU_SOURCE -Os -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables"
for part in cap-ng lookup_table; do
	# shellcheck disable=SC2086 # lists of words
	$compile $small -w -DHAVE_SYSCALL_H -DHAVE_LINUX_SECUREBITS_H -I"$objects" -I"$source/src" \
		-c -o "$objects/$part.o" "$source/src/$part.c"
done
$objcopy --remove-section=.init_array --remove-section=.rela.init_array "$objects/cap-ng.o"
# shellcheck disable=SC2086
$compile $small -s -static -no-pie -Wl,--gc-sections -Wl,--build-id=none -Wl,-z,norelro \
	-Wl,-z,noseparate-code -I"$source/src" $link -o "$top/$output" "$@" \
	"$objects/cap-ng.o" "$objects/lookup_table.o" $link_end
