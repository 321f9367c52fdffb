#!/bin/sh
# as_user.sh PROGRAM [ARGUMENT...]: a test program as an ordinary user, who may do nothing to control groups, users or
# other people's processes. 77, and why, where that cannot be: ctest calls it skipped.
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
# Folders of root's in PATH would be "permission denied" where a program is looked for that is nowhere.
HOME=$scratch TMPDIR=$scratch XDG_RUNTIME_DIR= PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin $user "$@"
