#!/bin/sh
# packages.sh PACKAGE...: installs those of Debian's packages that are missing, and says so.
set -eu

missing=
for package; do
	dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null | grep -q ' installed$' ||
		missing="$missing $package"
done
[ -n "$missing" ] || exit 0

echo "Installing missing packages:$missing"
if [ "$(id -u)" = 0 ]; then
	as_root=
elif command -v sudo >/dev/null; then
	as_root=sudo
else
	echo "packages.sh: not root, and there is no sudo: please install$missing" >&2
	exit 1
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086 # both are lists of words
if ! { $as_root apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	$as_root apt-get install -o DPkg::Lock::Timeout=300 -qq -y --no-install-recommends $missing; } >"$log" 2>&1; then
	cat "$log" >&2
	exit 1
fi
