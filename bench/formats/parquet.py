"""Rows of 2048 int32 in Parquet, read by pyarrow and by Hugging Face's datasets."""

import os
from pathlib import Path

from torch.utils.data import DataLoader

BATCH, COLUMNS, FILES, ROWS, GROUP = 64, 2048, 8, 2500, 500  # rows of each file and of a row group


def make(folder):
    """Draws tokens; larger tokens are rarer, as with a tokenizer."""
    import numpy
    import pyarrow
    import pyarrow.parquet

    random = numpy.random.default_rng(1)
    for number in range(FILES):
        tokens = (50257 * random.random(ROWS * COLUMNS) ** 3).astype(numpy.int32)
        rows = pyarrow.ListArray.from_arrays(numpy.arange(0, ROWS * COLUMNS + 1, COLUMNS, dtype=numpy.int32), tokens)
        table = pyarrow.table({"input_ids": rows})
        pyarrow.parquet.write_table(table, f"{folder}/{number:03}.parquet", compression="zstd", row_group_size=GROUP)


def files_in(folder):
    return sorted(str(path) for path in Path(folder).glob("*.parquet"))


def for_ever(make_epoch):
    while True:
        yield from make_epoch()


def parquet_pyarrow(folder, workers):
    """Arrays of the rows of a row group, in pyarrow's own memory. Smaller or larger batches are slower."""
    import pyarrow.parquet

    def epoch():
        for path in files_in(folder):
            for batch in pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=GROUP, use_threads=False):
                yield batch.column(0).flatten().to_numpy().reshape(-1, COLUMNS)

    return lambda: for_ever(epoch), len


def dataset_of(folder, streaming):
    """Makes datasets keep its caches in the folder of this case."""
    os.environ.update(HF_HOME=f"{folder}/huggingface", HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")
    import datasets

    datasets.disable_progress_bars()
    rows = datasets.load_dataset("parquet", data_files=files_in(folder), split="train", streaming=streaming)
    return rows.with_format("torch")


def loader_over(dataset, workers):
    def open_batches():
        loader = DataLoader(dataset, batch_size=BATCH, num_workers=workers, persistent_workers=workers > 0)
        return for_ever(lambda: loader)

    return open_batches, lambda batch: len(batch["input_ids"])


def parquet_streaming(folder, workers):
    return loader_over(dataset_of(folder, True), workers)


def parquet_arrow(folder, workers):
    return loader_over(dataset_of(folder, False), workers)
