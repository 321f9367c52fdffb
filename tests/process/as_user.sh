#!/bin/sh
# as_user.sh PROGRAM [ARGUMENT...]: runs a test program as an ordinary user without access to control groups and other
# users' processes. If that is impossible, says why and exits with 77, which ctest takes as skipped.
program=$1
skip() {
  echo "skipped: $*"
  exit 77
}
[ "$(id -u)" = 0 ] || skip "the tests run as an ordinary user already"
command -v setpriv >/dev/null || skip "there is no setpriv"
user="setpriv --reuid 65534 --regid 65534 --clear-groups"
$user test -x "$program" || skip "another user cannot reach $program"
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
chown 65534:65534 "$scratch"
cd "$scratch" || exit 1
# With root's folders in PATH, looking for a missing program would give "permission denied".
HOME=$scratch TMPDIR=$scratch XDG_RUNTIME_DIR= PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin $user "$@"
