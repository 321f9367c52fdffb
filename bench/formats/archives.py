"""Samples from tar archives, read by the Python package webdataset, and Pillow's decoding only."""

import io
import itertools
import tarfile
from pathlib import Path

from torch.utils.data import DataLoader

BATCH = 64


def archives_in(folder):
    return sorted(str(path) for path in Path(folder).glob("*.tar"))


def for_ever(loader):
    while True:
        yield from loader


def loader_over(dataset, workers):
    """Returns the two functions for measure(), for a stream of pairs: a sample's bytes or picture, and its class."""
    return lambda: for_ever(DataLoader(dataset, batch_size=BATCH, num_workers=workers, persistent_workers=workers > 0)), lambda batch: len(batch[1])


def jpegs_pillow(folder, workers):
    from PIL import Image

    files = []
    for path in archives_in(folder):
        with tarfile.open(path) as archive:
            files += [archive.extractfile(entry).read() for entry in archive if entry.name.endswith(".jpg")]

    def pictures():
        for file in itertools.cycle(files):
            picture = Image.open(io.BytesIO(file))
            picture.load()
            yield picture

    return pictures, lambda picture: 1


def jpegs_webdataset(folder, workers):
    import webdataset

    return loader_over(webdataset.WebDataset(archives_in(folder), shardshuffle=False).decode("torchrgb8").to_tuple("jpg", "cls"), workers)


def samples_webdataset(folder, workers):
    import webdataset

    return loader_over(webdataset.WebDataset(archives_in(folder), shardshuffle=False).to_tuple("bin", "cls").map_tuple(bytes, int), workers)
