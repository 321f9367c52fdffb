#!/bin/sh
# Run while an image is made: do Muster's and the user's programs find their libraries here? Jobs with --mpi and --backend mpi alone need Open MPI
# and PMIx, and programs that read Parquet or Arrow files alone need pyarrow: such an image brings its own.
loaded=$(find /usr/local/lib -name 'libmuster_*.so' ! -name libmuster_mpi.so ! -name libmuster_pmix.so ! -name libmuster_parquet.so)
said=$(ldd /usr/local/bin/* $loaded 2>&1 | grep 'not found')
[ -n "$said" ] || exit 0
missing=$(printf '%s\n' "$said" | sed -n 's/^[[:space:]]*\([^ ]*\) => not found.*/\1/p' | sort -u | tr '\n' ' ')
[ -z "$missing" ] || echo "this BASE lacks libraries that docker/context.sh did not find either: $missing" >&2
version=$(printf '%s\n' "$said" | sed -n "s/.*version .GLIBC_\([0-9.]*\)' not found.*/\1/p" | sort -uV | tail -n 1)
[ -z "$version" ] || echo "this BASE has glibc $(ldd --version | sed -n '1s/.* //p'), and the programs need $version: take a newer one, or build them on an older machine" >&2
[ -n "$missing$version" ] || printf '%s\n' "$said" >&2
exit 1
