#!/usr/bin/env bash
# pandas 3.1.1 (with pyarrow 26.0.1), polars 2.1.0, DuckDB 2.0.1: none of them writes Parquet's CRC of each page by default. So a reader
# that verifies checksums (pyarrow's page_checksum_verification=True) has nothing to compare: it reads a file with one changed bit in a page of
# numbers as other numbers, without an error. With pyarrow's own write_table(write_page_checksum=True) the same reader refuses the file.
# Seen, with 20 changed bits each: "pandas 20 unnoticed, polars 20 unnoticed, duckdb 20 unnoticed, pyarrow with checksums 0 unnoticed".
# usage: parquet_writers_write_no_page_checksums.sh
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-cache-dir pyarrow==26.0.1 pandas==3.1.1 polars==2.1.0 duckdb==2.0.1 numpy==2.4.6
cd "$folder"
said=$(venv/bin/python - <<'P'
import random

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

numbers = np.random.default_rng(0).integers(0, 1 << 40, 5000)
frame = pd.DataFrame({"n": numbers})
frame.to_parquet("pandas", compression=None)
pl.DataFrame({"n": numbers}).write_parquet("polars", compression="uncompressed")
duckdb.sql("copy (select n from frame) to 'duckdb' (format parquet, compression uncompressed)")
pq.write_table(pa.table({"n": numbers}), "pyarrow with checksums", compression="none", write_page_checksum=True)

said = []
for name in ["pandas", "polars", "duckdb", "pyarrow with checksums"]:
    whole = open(name, "rb").read()
    column = pq.ParquetFile(name).metadata.row_group(0).column(0)
    begin = column.dictionary_page_offset or column.data_page_offset
    rng, unnoticed = random.Random(1), 0
    for _ in range(20):
        changed = bytearray(whole)
        changed[begin + 200 + rng.randrange(column.total_compressed_size - 300)] ^= 1 << rng.randrange(8)
        open("changed", "wb").write(changed)
        try:
            unnoticed += pq.read_table("changed", page_checksum_verification=True)["n"].to_pylist() != numbers.tolist()
        except OSError:
            pass
    said.append(f"{name} {unnoticed} unnoticed")
print(", ".join(said))
P
)
echo "$said"
[[ $said == "pandas 20 unnoticed, polars 20 unnoticed, duckdb 20 unnoticed, pyarrow with checksums 0 unnoticed" ]]
