"""usage: parquet_files.py FOLDER SEED COUNT WRITER...: Parquet and Arrow files drawn from a seed, as their owners write them.

Beside each file lies one that ends in .txt with the values of each row, a line each, as parquet_test.cc writes what it has read. The first
letter of a column's name says how it is read. Writers that are not installed are left out, and named.
"""

import importlib.util
import random
import struct
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

COMPRESSIONS = ["none", "snappy", "gzip", "zstd", "lz4"]


def text_of(letter, value, dtype):
    """`dtype` is the type of its tensors."""
    if value is None:
        return "-"
    if letter == "n":
        return str(int(value))
    if letter == "r":
        return struct.pack("<d", value).hex()
    if letter == "t":
        return "x" + value.encode().hex()
    if letter == "b":
        return "x" + value.hex()
    if letter == "i":
        return "x" + value["bytes"].hex()
    if letter == "s":
        return "[" + ",".join("x" + each.encode().hex() for each in value) + "]"
    array = np.array(value, dtype=dtype)
    return "{}[{}]{}".format(array.dtype.name, ",".join(map(str, array.shape)), array.tobytes().hex())


def words(rng):
    return "".join(rng.choice("aäß語 .\n\0z") for _ in range(rng.choice([0, 1, 5, 11, 12, 13, 40])))


def blob(rng):
    return rng.randbytes(rng.choice([0, 1, 12, 13, 200]))


def number_of(rng, dtype):
    if dtype == "bool":
        return rng.random() < 0.5
    if dtype.startswith("float"):
        return float(np.array(rng.choice([0.0, -0.0, 1.5, -3.25, 65504.0, float("inf"), rng.uniform(-9, 9)]), dtype=dtype))
    information = np.iinfo(dtype)
    return rng.choice([0, 1, int(information.min), min(int(information.max), 2**63 - 1), rng.randrange(100)])


def numbers_of(rng, dtype, count):
    return rng.choices([number_of(rng, dtype) for _ in range(5)], k=count)


def arrow_type(dtype):
    return {"bool": pa.bool_()}.get(dtype) or pa.from_numpy_dtype(np.dtype(dtype))


NUMBERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64", "bool"]


def columns(rng, rows):
    """Name, Arrow type, dtype of the tensors, and a function that makes a value; some values are null if rows may be."""
    for dtype in rng.sample(NUMBERS, 2) + ["float16"]:
        kind = "r" if dtype.startswith("float") else "n"
        yield kind + "_" + dtype, arrow_type(dtype), None, lambda dtype=dtype: number_of(rng, dtype)
    yield "t_text", rng.choice([pa.string(), pa.large_string()]), None, lambda: words(rng)
    index = rng.choice([pa.int8(), pa.int16(), pa.int32(), pa.uint32()])
    yield "t_category", pa.dictionary(index, pa.string()), None, lambda: rng.choice(["cat", "dog", "", "mouse of some length"])
    yield "b_blob", rng.choice([pa.binary(), pa.large_binary()]), None, lambda: blob(rng)
    dtype = rng.choice(NUMBERS)
    yield "v_scalar", arrow_type(dtype), dtype, lambda dtype=dtype: number_of(rng, dtype)
    dtype, make = rng.choice(NUMBERS), rng.choice([pa.list_, pa.large_list])
    yield "v_list", make(arrow_type(dtype)), dtype, lambda dtype=dtype: numbers_of(rng, dtype, rng.choice([0, 1, 7, 1100]))
    dtype, size = rng.choice(NUMBERS), rng.choice([1, 5, 1100])
    yield "v_fixed", pa.list_(arrow_type(dtype), size), dtype, lambda dtype=dtype: numbers_of(rng, dtype, size)
    dtype, width = rng.choice(NUMBERS), rng.choice([1, 4])
    yield (
        "v_matrix",
        pa.list_(pa.list_(arrow_type(dtype))),
        dtype,
        lambda dtype=dtype: [numbers_of(rng, dtype, width) for _ in range(rng.choice([1, 2, 6]))],
    )
    yield "s_words", rng.choice([pa.list_, pa.large_list])(pa.string()), None, lambda: [words(rng) for _ in range(rng.choice([0, 1, 3]))]
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    yield "i_image", image, None, lambda: {"bytes": blob(rng), "path": rng.choice([None, "a.png"])}


def table_of(rng, nulls):
    """The table, and the dtype of each column's tensors."""
    rows, nulls = rng.choice([0, 1, 3, 30, 80]), nulls and rng.random() < 0.5
    chosen = list(columns(rng, rows))
    rng.shuffle(chosen)
    arrays, names, dtypes = [], [], {}
    for name, kind, dtype, make in chosen[: rng.randrange(3, len(chosen) + 1)]:
        may_be_null = nulls and rng.random() < 0.5
        values = [None if may_be_null and rng.random() < 0.2 else make() for _ in range(rows)]
        if pa.types.is_dictionary(kind):
            arrays.append(pa.array(values, pa.string()).dictionary_encode().cast(kind))
        else:
            arrays.append(pa.array(values, kind))
        names.append(name)
        dtypes[name] = dtype
    return pa.table(arrays, names=names), dtypes


def by_pyarrow(rng, table, path):
    kind = rng.choice(["parquet", "parquet", "parquet", "feather", "file", "stream"])
    path = path.with_suffix("." + {"file": "arrow", "stream": "arrow"}.get(kind, kind))
    if kind == "parquet":
        pq.write_table(
            table,
            path,
            row_group_size=rng.choice([1, 7, 64, 1000]),
            compression=rng.choice(COMPRESSIONS),
            use_dictionary=rng.random() < 0.5,
            write_page_checksum=rng.random() < 0.5,
            store_schema=rng.random() < 0.7,
            data_page_size=rng.choice([200, 1 << 20]),
            data_page_version=rng.choice(["1.0", "2.0"]),
            use_compliant_nested_type=rng.random() < 0.5,
        )
    elif kind == "feather":
        pyarrow.feather.write_feather(table, path, compression=rng.choice(["lz4", "zstd", "uncompressed"]), chunksize=rng.choice([16, 1000]))
    else:
        options = pa.ipc.IpcWriteOptions(compression=rng.choice([None, "lz4", "zstd"]), unify_dictionaries=True)
        make = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
        with make(str(path), table.schema, options=options) as writer:
            writer.write_table(table, max_chunksize=rng.choice([16, 1000]))
    return path


def by_pandas(rng, table, path):
    path = path.with_suffix(".parquet")
    table.to_pandas().to_parquet(path, compression=rng.choice(["snappy", "gzip", None, "zstd"]), row_group_size=rng.choice([7, 1000]))
    return path


def by_polars(rng, table, path):
    import polars

    frame = polars.from_arrow(table)
    if rng.random() < 0.3:
        path = path.with_suffix(".arrow")
        frame.write_ipc(path, compression=rng.choice(["lz4", "zstd", "uncompressed"]))
    else:
        path = path.with_suffix(".parquet")
        frame.write_parquet(path, compression=rng.choice(["zstd", "snappy", "gzip", "uncompressed"]), row_group_size=rng.choice([7, 1000]))
    return path


def by_duckdb(rng, table, path):
    import duckdb

    path = path.with_suffix(".parquet")
    with duckdb.connect() as connection:
        connection.register("rows_of_it", table)
        compression = rng.choice(["zstd", "snappy", "gzip", "uncompressed"])
        connection.execute(f"COPY (SELECT * FROM rows_of_it) TO '{path}' (FORMAT parquet, COMPRESSION {compression}, ROW_GROUP_SIZE 2048)")
    return path


def by_datasets(rng, table, path):
    import datasets

    datasets.disable_progress_bars()
    data = datasets.Dataset(datasets.table.InMemoryTable(table))
    if rng.random() < 0.5:
        path = path.with_suffix(".parquet")
        data.to_parquet(path, batch_size=rng.choice([7, 1000]))
        return path
    folder = path.with_suffix(".saved")
    data.save_to_disk(folder, num_shards=1)
    path = path.with_suffix(".arrow")
    (saved,) = folder.glob("*.arrow")
    saved.rename(path)
    return path


WRITERS = {"pyarrow": by_pyarrow, "pandas": by_pandas, "polars": by_polars, "duckdb": by_duckdb, "datasets": by_datasets}
# Columns for which a writer has no type, or which it stores with another type.
LEFT_OUT = {"pandas": {"r_float16"}, "duckdb": {"r_float16", "v_fixed"}, "polars": set(), "datasets": {"t_category"}, "pyarrow": set()}


def main(folder, seed, count, writers):
    there = [name for name in writers if importlib.util.find_spec(name)]
    missing = [name for name in writers if name not in there]
    if missing:
        print("not installed: " + ", ".join(missing))
    for number in range(count):
        rng = random.Random(seed * 100_000 + number)
        writer = there[number % len(there)]
        table, dtypes = table_of(rng, nulls=writer != "pandas")  # with a null, numpy's integers become floats
        for name in LEFT_OUT[writer] & set(table.column_names):
            table = table.drop_columns([name])
        if table.num_columns == 0:
            continue
        path = WRITERS[writer](rng, table, folder / f"{number:03}_{writer}")
        lines = [" ".join(f"{name}={text_of(name[0], value, dtypes[name])}" for name, value in row.items()) for row in table.to_pylist()]
        Path(str(path) + ".txt").write_text("".join(line + "\n" for line in lines))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
