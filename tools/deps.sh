#!/bin/sh
# Installs what building and testing need, where it is missing; says what and why before.
#
#   tools/deps.sh           as root, or with sudo
#   tools/deps.sh --check   only says what is missing; exit status 1 where something is
#
# For Debian and Ubuntu; elsewhere install what the list names.

# Package, and why it is needed.
list='
gcc                 : compiles
make                : builds
pkg-config          : finds the BLAS
libc6-dev           : headers of the C library
libjansson-dev      : reads and writes JSON
libminizip-dev      : reads .pt2 archives
zlib1g-dev          : checksums of those
libopenblas0-pthread: sgemm and dgemm
libblis4-pthread    : the same, faster on some machines
check               : unit tests
libsubunit-dev      : the unit tests link it
'

installed() {
	dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'install ok installed'
}

case $1 in
'' | --check) ;;
--help)
	sed -n 's/^# \{0,1\}//p' "$0" | sed -n '2,7p'
	exit 0
	;;
*)
	echo "deps.sh: unknown option '$1'; there is --check" >&2
	exit 2
	;;
esac
if ! command -v dpkg-query >/dev/null; then
	echo "deps.sh: this is no Debian; what is needed:$list" >&2
	[ "$1" = --check ] && exit 0
	exit 1
fi

missing=
while IFS=: read -r package why; do
	package=$(echo "$package" | tr -d ' ')
	if [ -n "$package" ] && ! installed "$package"; then
		echo "missing: $package ($(echo "$why" | sed 's/^ *//'))"
		missing="$missing $package"
	fi
done <<END
$list
END
[ -n "$missing" ] || exit 0
[ "$1" = --check ] && exit 1

as_root=
if [ "$(id -u)" -ne 0 ]; then
	as_root=sudo
	if ! command -v sudo >/dev/null; then
		echo "deps.sh: as root, run: apt-get install$missing" >&2
		exit 1
	fi
fi
echo "installing:$missing"
# The list of packages may be old or empty on a fresh machine.
# shellcheck disable=SC2086
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing ||
	{ $as_root apt-get update &&
		$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing; }
