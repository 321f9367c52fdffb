#!/bin/sh
# run.sh PROGRAM NAME SECONDS: runs a fuzzer on its corpus here and on the inputs that its earlier runs found. The latter lie next to the
# program, as does an input that breaks something: NAME.crash-... or NAME.timeout-...; run the program with that file.
set -eu
here=$(dirname "$0")
found=$(dirname "$1")/../fuzz/$2
mkdir -p "$found"
words=$here/$2.dict
[ -f "$words" ] || words=
exec "$1" -max_total_time="$3" -timeout=20 -rss_limit_mb=1024 -max_len=4096 -verbosity=0 -print_final_stats=1 \
  -artifact_prefix="$found." ${words:+-dict="$words"} "$found" "$here/corpus/$2"
