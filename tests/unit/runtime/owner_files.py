"""usage: owner_files.py FOLDER SEED COUNT: tokens and tables drawn from a seed, as numpy, megatron-core and pandas write them.

Beside each file lies one that ends in .txt with what is in it, as owner_files_test.cc writes what it has read. What of the three is not
installed is left out.
"""

import importlib.util
import random
import sys
from pathlib import Path

import numpy as np

CONTEXT = 16


def drawn_tokens(rng, dtype):
    """More than one sample of tokens that use all bits of the type except the sign."""
    bits = min(np.iinfo(dtype).bits - (np.dtype(dtype).kind == "i"), 31)
    count = rng.choice([CONTEXT + 1, CONTEXT + 2, 500, 3000])
    return np.array([rng.getrandbits(bits) for _ in range(count)], dtype)


def text_of_tokens(tokens, documents):
    """Tokens for whole samples of CONTEXT tokens, and the place where each document begins."""
    whole = (len(tokens) - 1) // CONTEXT * CONTEXT + 1
    lines = [f"{len(tokens)} tokens", "documents " + " ".join(map(str, documents)), " ".join(map(str, tokens[:whole].tolist()))]
    return "\n".join(lines) + "\n"


def npy(rng, path):
    path = path.with_suffix(".npy")
    tokens = drawn_tokens(rng, rng.choice([np.uint8, np.uint16, np.uint32, np.int32, np.int64]))
    if rng.random() < 0.3:
        np.lib.format.write_array(path.open("wb"), tokens, version=rng.choice([(1, 0), (2, 0), (3, 0)]))
    else:
        np.save(path, tokens)
    return path, text_of_tokens(tokens, [0, len(tokens)])


def plain(rng, path):
    path = path.with_suffix(".uint16.bin")
    tokens = drawn_tokens(rng, np.uint16)
    tokens.tofile(path)
    return path, text_of_tokens(tokens, [0, len(tokens)])


def megatron(rng, path):
    import torch
    from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder

    path = path.with_suffix(".bin")
    dtype = rng.choice([np.uint8, np.uint16, np.int32, np.int64])
    tokens = drawn_tokens(rng, dtype)
    builder, ends = IndexedDatasetBuilder(str(path), dtype=dtype), sorted(rng.sample(range(1, len(tokens)), rng.choice([0, 1, 5])))
    ends.append(len(tokens))
    begin = 0
    for end in ends:
        if rng.random() < 0.5 and end - begin > 1:  # a document of two sequences
            middle = rng.randrange(begin + 1, end)
            builder.add_document(torch.from_numpy(tokens[begin:end].astype(np.int64)), [middle - begin, end - middle])
        else:
            builder.add_item(torch.from_numpy(tokens[begin:end].astype(np.int64)))
            builder.end_document()
        begin = end
    builder.finalize(str(path.with_suffix(".idx")))
    return path, text_of_tokens(tokens, [0] + ends)


def table(rng, path):
    """float32 [rows, columns] and the class of each row; a missing value counts as -1."""
    import pandas

    rows, columns = rng.choice([1, 2, 60, 400]), rng.randrange(1, 6)
    frame = pandas.DataFrame()
    for number in range(columns):
        values = [rng.choice([0.0, -1.5, 1e-30, rng.uniform(-9, 9), rng.uniform(-1e9, 1e9), float(rng.randrange(-50, 50))]) for _ in range(rows)]
        name = rng.choice(["x", "a, b", 'say "so"', "größe"]) + str(number)
        kind = rng.random()
        if kind < 0.2:
            frame[name] = [value > 0 for value in values]
        elif kind < 0.4:
            frame[name] = [int(value) % 10**6 for value in values]
        else:
            frame[name] = [None if rng.random() < 0.1 else value for value in values]
    words = ["cat", "dog", "a cat, with a comma", 'a "dog"', "zwei\nZeilen"]
    labels = [rng.randrange(len(words)) for _ in range(rows)]
    frame["label"] = [words[label] for label in labels]
    compression = rng.choice([None, "gzip"])
    path = path.with_suffix(".csv.gz" if compression else ".csv")
    frame.to_csv(path, index=False, compression=compression, quoting=rng.choice([0, 1, 2]), lineterminator=rng.choice(["\n", "\r\n"]))
    read = pandas.read_csv(path)
    numbers = read.drop(columns="label").astype(np.float64).fillna(-1).to_numpy().astype(np.float32)
    lines = [f"{row.tobytes().hex()} {label}" for row, label in zip(numbers, labels)]
    return path, "\n".join(lines) + "\n"


MAKERS = {"numpy": [npy, plain], "megatron": [megatron], "pandas": [table]}


def main(folder, seed, count):
    there = [maker for module, makers in MAKERS.items() if importlib.util.find_spec(module) for maker in makers]
    for maker in there:
        for number in range(count):
            rng = random.Random(f"{seed} {maker.__name__} {number}")
            path, text = maker(rng, folder / f"{maker.__name__}_{number:03}")
            Path(str(path) + ".txt").write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
