#!/usr/bin/env python3
"""Compares what muster::WebDataset reads with what the webdataset library does.

    webdataset_official.py PROGRAM [--zstd] [--seed S] [--archives N]

PROGRAM is web_dataset_read. Archives are drawn from the seed: by webdataset's TarWriter and ShardWriter, Python's tarfile and GNU tar in
all their forms, sparse too; plain, compressed by gzip and, with --zstd, by zstd. Then each is read under another name, cut, emptied, and
with one byte flipped: never a crash, and never fewer samples without an error or a warning. Exits with 77 where webdataset is not
installed.
"""

import argparse
import gzip
import io
import json
import random
import subprocess
import sys
import tarfile
import tempfile
import zlib
from pathlib import Path

import numpy as np

try:
    import webdataset
except ImportError as missing:
    print(f"skipped: {missing}; `./dev setup` installs webdataset beside torch")
    sys.exit(77)

TYPES = {
    "bool": "Bool", "uint8": "Byte", "int8": "Char", "uint16": "UInt16", "int16": "Short", "int32": "Int", "int64": "Long",
    "float16": "Half", "float32": "Float", "float64": "Double",
}
TAR_OPTIONS = [
    "--format=v7", "--format=oldgnu", "--format=gnu", "--format=ustar", "--format=posix", "--format=gnu --sparse --hole-detection=raw",
    "--format=posix --hole-detection=raw --sparse-version=0.0", "--format=posix --hole-detection=raw --sparse-version=0.1",
    "--format=posix --hole-detection=raw --sparse-version=1.0",
]
BLOCK = 512
# Old forms cannot hold names of 100 bytes and more, and ustar can hold only some of them.
OLD_FORMS = ["--format=v7", "--format=ustar", tarfile.USTAR_FORMAT]


# ---- archives, drawn from a seed


def array(draw):
    shape = [draw.randrange(4) for _ in range(draw.randrange(4))]
    made = np.frombuffer(draw.randbytes(8 * int(np.prod(shape, dtype=int))), np.int64).reshape(shape).__mod__(1000).astype(draw.choice(list(TYPES)))
    return np.asfortranarray(made) if draw.random() < 0.3 else made


def saved(function, *arrays, **named):
    file = io.BytesIO()
    function(file, *arrays, **named)
    return file.getvalue()


def contents(draw, part):
    kind = part.split(".")[-1].lower()
    if kind == "npy":
        return saved(np.save, array(draw))
    if kind == "npz":
        return saved(draw.choice([np.savez, np.savez_compressed]), **{f"a{i}": array(draw) for i in range(draw.randrange(4))})
    if kind == "json":
        return json.dumps({"label": draw.randrange(-99, 99), "captions": ["\u00fc" * draw.randrange(20), {}]}).encode()
    if kind == "cls":
        return str(draw.randrange(1000)).encode() + draw.choice([b"", b"\n"])
    if kind == "txt":
        return ("a b\u00fc" * draw.randrange(400)).encode()
    pieces = [b"\0" * draw.choice([0, 4096, 100_000]), draw.randbytes(draw.choice([0, 3, 511, 512, 20_000])), b"\0" * draw.choice([0, 50_000])]
    return b"".join(pieces)


def samples(draw, plain_names):
    """Names and contents, each sample's one after the other."""
    files = []
    for number in range(draw.randrange(1, 8)):
        folder = draw.choice(["", "a/", "a.b/c/", "" if plain_names else "d" * 120 + "/", "" if plain_names else "\u00fc/"])
        key = f"{folder}{number:05}" + ("" if plain_names else draw.choice(["", "n" * 100]))
        for part in draw.sample(["npy", "npz", "json", "cls", "txt", "jpg", "left.npy", "seg.BIN"], draw.randrange(1, 6)):
            files.append((f"{key}.{part}", contents(draw, part)))
        if draw.random() < 0.2:
            files.append(draw.choice([(f"{folder}README", b"no sample"), ("__meta__/about.json", b"{}"), (".hidden", b"")]))
    return files


def write_by_tarfile(draw, path, files, form):
    with tarfile.open(path, "w", format=form) as tar:
        for name, data in files:
            if draw.random() < 0.1:
                link = tarfile.TarInfo("x.cls")
                link.type, link.linkname = draw.choice([tarfile.SYMTYPE, tarfile.DIRTYPE]), "elsewhere"
                tar.addfile(link)
            member = tarfile.TarInfo(name)
            member.size = len(data)
            if form == tarfile.PAX_FORMAT and draw.random() < 0.3:
                member.pax_headers = {"comment": "k" * draw.randrange(2000)}
            tar.addfile(member, io.BytesIO(data))


def write_by_webdataset(draw, path, files, writer):
    """Unchanged contents: the library's encoders leave bytes alone."""
    grouped = {}
    for name, data in files:
        key, _, part = name.rpartition("/")[2].partition(".")
        if part and not name.startswith("__") and key:
            grouped.setdefault(name[: len(name) - len(part) - 1], {})[part] = data
    made = [{"__key__": key, **parts} for key, parts in grouped.items()]
    if writer == "TarWriter":
        with webdataset.TarWriter(str(path), encoder=False) as writer:
            for sample in made:
                writer.write(sample)
        return
    pattern = str(path.with_suffix("")) + "-%d.tar"
    with webdataset.ShardWriter(pattern, maxcount=10**6, verbose=0, encoder=False) as writer:
        for sample in made:
            writer.write(sample)
    Path(pattern % 0).rename(path)


def write_by_gnu_tar(draw, path, files, options):
    folder = path.with_suffix(".files")
    for name, data in files:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(file, "wb") as out:  # blocks of zeros are holes
            for at in range(0, len(data), 4096):
                if any(data[at : at + 4096]):
                    out.seek(at)
                    out.write(data[at : at + 4096])
            out.truncate(len(data))
    command = ["tar", *options.split(), "-C", folder, "-cf", path, "-T", "-"]
    subprocess.run(command, input="\n".join(name for name, _ in files), text=True, check=True, stderr=subprocess.DEVNULL)


WRITERS = [
    (write_by_tarfile, [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
    (write_by_webdataset, ["TarWriter", "ShardWriter"]),
    (write_by_gnu_tar, TAR_OPTIONS),
]


def packed(draw, path, with_zstd):
    """The archive, compressed or not, and the name of the compression. The file name will not tell it."""
    how = draw.choice(["plain", "gzip", "zstd"] if with_zstd else ["plain", "gzip"])
    data = path.read_bytes()
    if how == "gzip":
        half = draw.randrange(len(data))
        return gzip.compress(data[:half]) + gzip.compress(data[half:]), how
    if how == "zstd":
        return subprocess.run(["zstd", "-q", "-c", "-", f"-{draw.randrange(1, 10)}"], input=data, capture_output=True, check=True).stdout, how
    return data, how


# ---- the results of both readers


def sum_of(data):
    return f"{len(data)} bytes, {zlib.crc32(data):08x}"


def value_of_array(value):
    return f"{TYPES[value.dtype.name]} [{','.join(map(str, value.shape))}] {sum_of(value.tobytes())}"


def value_of(part, data):
    """webdataset's results, in the form that web_dataset_read prints."""
    kind = part.split(".")[-1]
    if kind in ("txt", "jpg", "bin"):
        return sum_of(data)
    value = webdataset.autodecode.decoders[kind](data)
    if kind == "npy":
        return value_of_array(value)
    if kind == "npz":
        return "".join(f"{key}: {value_of_array(value[key])}; " for key in sorted(value.keys()))
    if kind == "json":
        return f"{value['label']} {value['captions'][0]}"
    return str(value)


def read_by_webdataset(path):
    dataset = webdataset.WebDataset(str(path), shardshuffle=False, empty_check=False)
    return [
        (sample["__key__"], sorted(f"{part} {value_of(part, data)}" for part, data in sample.items() if not part.startswith("__")))
        for sample in dataset
    ]


class Reading:
    def __init__(self):
        self.samples, self.errors, self.ended = [], [], False


def read_by_muster(program, paths):
    """The results for each path. A warning about an archive counts as an error."""
    ran = subprocess.run([program], input="\n".join(map(str, paths)), capture_output=True, text=True, errors="surrogateescape")
    if ran.returncode != 0:
        sys.exit(f"{program} ended with status {ran.returncode}: {ran.stderr[-3000:]}\n{ran.stdout[-1000:]}")
    readings = {}
    for line in ran.stdout.split("\n"):
        word, _, rest = line.partition(" ")
        if word == "archive":
            now = readings[rest] = Reading()
        elif word == "sample":
            now.samples.append((rest, []))
        elif word == "part":
            now.samples[-1][1].append(rest)
        elif word == "error":
            now.errors.append(rest)
        elif word == "end":
            now.ended = True
    for path in paths:
        now = readings[str(path)]
        if not now.ended:
            sys.exit(f"{program} did not come to the end of {path}")
        now.samples = [(key, sorted(parts)) for key, parts in now.samples]
        now.errors += [line for line in ran.stderr.splitlines() if str(path) in line]
    return readings


# ---- damage


def checked_by_tar(data):
    """The bytes of a plain archive that its headers' checksums or the blocks of zeros cover."""
    places, at = [], 0
    while at < len(data):
        block = data[at : at + BLOCK]
        places += range(at, at + BLOCK)
        at += BLOCK
        if not any(block):
            return places[:-1]  # one byte of the other block of zeros may be anything
        more = block[156:157] == b"S" and block[482]
        while more:
            more = data[at + 504]
            at += BLOCK
        size = int(block[124:136].rstrip(b"\0 ") or b"0", 8) if block[156:157] not in b"123456" else 0
        at += (size + BLOCK - 1) // BLOCK * BLOCK
    return places


def flipped(data, place, draw):
    return data[:place] + bytes([data[place] ^ 1 << draw.randrange(8)]) + data[place + 1 :]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--zstd", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--archives", type=int, default=200)
    options = parser.parse_args()
    wrong = []
    with tempfile.TemporaryDirectory() as scratch:
        draw = random.Random(options.seed)
        expected, damaged, told = {}, {}, {}
        for number in range(options.archives):
            writer, forms = draw.choice(WRITERS)
            form = draw.choice(forms)
            plain = Path(scratch, f"plain-{number}.tar")
            files = samples(draw, form in OLD_FORMS)
            writer(draw, plain, files, form)
            whole = plain
            if "sparse" in str(form):  # for long names, Python's tarfile takes another name than tar does
                whole = Path(scratch, f"whole-{number}.tar")
                write_by_gnu_tar(draw, whole, files, "--format=posix")
            read = read_by_webdataset(whole)
            data, how = packed(draw, plain, options.zstd)

            def put(name, now, about=f"archive {number}, {writer.__name__} {form}, {how}"):
                path = Path(scratch, name)
                path.write_bytes(now)
                told[path] = f"{about}, {name}"
                return path

            expected[put(f"{number}.tar", data)] = read
            expected[put(f"{number}.{draw.choice(['gz', 'zst', 'bin', 'tar.gz'])}", data)] = read
            damaged[put(f"cut-{number}.tar", data[: draw.randrange(len(data))])] = read
            damaged[put(f"empty-{number}.tar", b"")] = read
            if how == "plain":
                place = draw.choice(checked_by_tar(data))
                put(f"contents-{number}.tar", flipped(data, draw.randrange(len(data)), draw))
            else:
                place = draw.randrange(len(data))
            damaged[put(f"flipped-{number}.tar", flipped(data, place, draw))] = read
        readings = read_by_muster(options.program, list(told))
        for path, read in expected.items():
            now = readings[str(path)]
            if now.errors or now.samples != read:
                different = next(((a, b) for a, b in zip(read, now.samples) if a != b), (len(read), len(now.samples)))
                wrong.append(f"{told[path]}: {now.errors} {different}")
        for path, read in damaged.items():
            now = readings[str(path)]
            if now.samples != read[: len(now.samples)] and not now.errors:
                wrong.append(f"{told[path]}: other samples, and no error")
            elif len(now.samples) < len(read) and not now.errors:
                wrong.append(f"{told[path]}: {len(now.samples)} of {len(read)} samples, and no error")
    print(f"{len(expected)} whole archives and {len(readings) - len(expected)} damaged ones, seed {options.seed}")
    for line in wrong[:20]:
        print(f"not as it should be: {line}")
    sys.exit(1 if wrong else 0)


main()
