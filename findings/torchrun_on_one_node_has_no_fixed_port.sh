#!/usr/bin/env bash
# torch 2.12 and newer: `torchrun train.py` on one node is no longer the static rendezvous at 127.0.0.1:29500 with run id "none". Without --master-port
# (or PET_MASTER_PORT) and --rdzv-endpoint it is --standalone: a free port, MASTER_ADDR=localhost and a random TORCHELASTIC_RUN_ID, although the help still
# says "default 29500". The same happens with --master-addr alone, whose address torchrun ignores.
# Seen with 2.15.0: MASTER_ADDR=localhost, another port each time, a UUID. Expected: what --help says.
# usage: torchrun_on_one_node_has_no_fixed_port.sh   (PYTHON=... takes an environment with torch 2.15.0 instead of installing one: 5 GB)
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
if [[ -z ${PYTHON:-} ]]; then
  python3 -m venv "$folder/venv" && PYTHON=$folder/venv/bin/python
  "$PYTHON" -m pip install -q --no-cache-dir torch==2.15.0 numpy
fi
[[ $("$PYTHON" -c 'import torch; print(torch.__version__)') == 2.15.0* ]]
echo 'import os; print(*(os.environ[name] for name in ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID")))' >"$folder/shows.py"
for flags in "" "--master-addr 127.0.0.5"; do
  read -r address port run_id < <(env -u PET_MASTER_PORT "$PYTHON" -m torch.distributed.run $flags "$folder/shows.py" 2>/dev/null)
  echo "torchrun $flags: $address $port $run_id"
  [[ $address == localhost && $port != 29500 && $run_id == ????????-????-????-????-???????????? ]]
done
