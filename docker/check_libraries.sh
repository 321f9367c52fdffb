#!/bin/sh
# Run while an image is made: do launch, agent and the programs in /usr/local/bin find their libraries here?
status=0
for file in /usr/local/bin/*; do
  said=$(ldd "$file" 2>&1 | grep -E 'not found' | sed 's/^[[:space:]]*//' | sort -u)
  [ -z "$said" ] || { printf '%s: %s\n' "$file" "$said" >&2; status=1; }
done
[ "$status" = 0 ] || echo 'this BASE lacks what stands above: take one whose glibc is as new as the build machine'"'"'s' >&2
exit "$status"
