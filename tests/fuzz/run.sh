#!/bin/sh
# run.sh PROGRAM NAME SECONDS: runs a fuzzer from its corpus here and from what its earlier runs found, which is kept beside
# the program. An input that breaks something is left there too, as NAME.crash-... or NAME.timeout-...; give it to the program.
set -eu
here=$(dirname "$0")
found=$(dirname "$1")/../fuzz/$2
mkdir -p "$found"
words=$here/$2.dict
[ -f "$words" ] || words=
exec "$1" -max_total_time="$3" -timeout=20 -rss_limit_mb=1024 -max_len=4096 -verbosity=0 -print_final_stats=1 \
  -artifact_prefix="$found." ${words:+-dict="$words"} "$found" "$here/corpus/$2"
