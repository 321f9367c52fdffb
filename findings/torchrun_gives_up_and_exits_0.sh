#!/usr/bin/env bash
# torch 2.15.0: torchrun exits with 0 after it gives up on a worker in uninterruptible sleep (TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT).
# The agent returns a result in state UNHEALTHY; launcher/api.py raises for FAILED only. By the exit code the job has succeeded.
# Seen: "stuck in uninterruptible sleep (D-state) for 3.0s", the workers are killed, exit code 0. Expected: a failure.
# usage: torchrun_gives_up_and_exits_0.sh   (PYTHON=... takes an environment with torch 2.15.0 instead of installing one: 5 GB)
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
if [[ -z ${PYTHON:-} ]]; then
  python3 -m venv "$folder/venv" && PYTHON=$folder/venv/bin/python
  "$PYTHON" -m pip install -q --no-cache-dir torch==2.15.0 numpy
fi
[[ $("$PYTHON" -c 'import torch; print(torch.__version__)') == 2.15.0* ]]
# The child of vfork() keeps its parent in state D.
echo 'import ctypes, time; ctypes.CDLL(None).vfork() or time.sleep(1000)' >"$folder/sleeps.py"
status=0
TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT=3 timeout 120 "$PYTHON" -m torch.distributed.run --shutdown-timeout 2 "$folder/sleeps.py" >"$folder/log" 2>&1 || status=$?
grep -q 'stuck in uninterruptible sleep' "$folder/log"
echo "torchrun gave its worker up and exited with $status"
((status == 0))
