#!/usr/bin/env bash
# torch 2.15.0: Store.barrier(key, world_size) works once per key, and counts calls, not clients. It is a counter that is never reset:
# a second barrier with the same key lets every caller pass at once. A caller whose wait timed out stays counted, and passes alone when it tries
# again. The documentation says "a unique key for this barrier instance", and does not mention the time-out.
# Seen: "second barrier: passed alone, key holds 3", "after its time-out: passed alone". Expected: DistStoreError, both times.
# usage: store_barrier_is_for_once.sh   (PYTHON=... takes an environment with torch 2.15.0 instead of installing one: 5 GB)
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
if [[ -z ${PYTHON:-} ]]; then
  python3 -m venv "$folder/venv" && PYTHON=$folder/venv/bin/python
  "$PYTHON" -m pip install -q --no-cache-dir torch==2.15.0 numpy
fi
cat >"$folder/barrier.py" <<'P'
import datetime, threading
import torch, torch.distributed as dist
assert torch.__version__.startswith("2.15.0"), torch.__version__
server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
one, two = (dist.TCPStore("127.0.0.1", server.port, is_master=False, wait_for_workers=False) for _ in range(2))
second = datetime.timedelta(seconds=1)
thread = threading.Thread(target=one.barrier, args=("k", 2))
thread.start()
two.barrier("k", 2)
thread.join()
two.barrier("k", 2, second)  # alone
assert two.get("k") == b"3"
print("second barrier: passed alone, key holds 3")
try:
    one.barrier("late", 2, second)
    raise SystemExit("the first try of one client passed")
except dist.DistStoreError:
    pass
one.barrier("late", 2, second)  # alone, again
print("after its time-out: passed alone")
P
"$PYTHON" "$folder/barrier.py" 2>"$folder/log" || { cat "$folder/log"; exit 1; }
