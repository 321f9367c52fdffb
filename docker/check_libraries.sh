#!/bin/sh
# Runs while an image is built: checks that Muster's and the user's programs find their libraries. Does not check for Open MPI and PMIx, which
# only jobs with --mpi or --backend mpi need, nor for pyarrow, which only readers of Parquet or Arrow files need: BASE must have these.
loaded=$(find /usr/local/lib -name 'libmuster_*.so' ! -name libmuster_mpi.so ! -name libmuster_pmix.so ! -name libmuster_parquet.so)
said=$(ldd /usr/local/bin/* $loaded 2>&1 | grep 'not found')
[ -n "$said" ] || exit 0
missing=$(printf '%s\n' "$said" | sed -n 's/^[[:space:]]*\([^ ]*\) => not found.*/\1/p' | sort -u | tr '\n' ' ')
[ -z "$missing" ] || echo "this BASE lacks libraries that docker/context.sh did not find either: $missing" >&2
version=$(printf '%s\n' "$said" | sed -n "s/.*version .GLIBC_\([0-9.]*\)' not found.*/\1/p" | sort -uV | tail -n 1)
[ -z "$version" ] || echo "this BASE has glibc $(ldd --version | sed -n '1s/.* //p'), but the programs need $version: use a newer BASE, or build the programs on an older machine" >&2
[ -n "$missing$version" ] || printf '%s\n' "$said" >&2
exit 1
