#!/usr/bin/env bash
# pyarrow 26.0.1 (numpy 2.4.6, pandas 3.1.1): if one row of a fixed_size_list column of int64 is null, to_pandas() gives every row as float64, so that
# numbers above 2^53 change in rows that are not null. A list column of int64 with the same rows stays int64.
# Seen: "list: int64 9007199254740993; fixed_size_list: float64 9007199254740992".
# usage: fixed_size_list_with_a_null_becomes_float.sh
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-cache-dir pyarrow==26.0.1 numpy==2.4.6 pandas==3.1.1
said=$("$folder/venv/bin/python" - <<'P'
import pyarrow as pa

said = []
for kind in [pa.list_(pa.int64()), pa.list_(pa.int64(), 2)]:
    first = pa.array([[2**53 + 1, 2], None], kind).to_pandas()[0]
    said.append("{}: {} {}".format(str(kind).split("<")[0], first.dtype, int(first[0])))
print("; ".join(said))
P
)
echo "$said"
[[ $said == "list: int64 9007199254740993; fixed_size_list: float64 9007199254740992" ]]
