"""Fashion-MNIST as a Python dataset: one sample at a time, or a batch at once."""

import gzip

import numpy
import torch
from torch.utils.data import Dataset

MEAN, STDDEV = 0.2860, 0.3530


def read(path, header, shape):
    with gzip.open(path) as file:
        return torch.from_numpy(numpy.frombuffer(file.read(), numpy.uint8, offset=header).copy()).view(shape)


class Images(Dataset):
    def __init__(self, data):
        self.images = read(f"{data}/train-images-idx3-ubyte.gz", 16, (-1, 1, 28, 28))
        self.labels = read(f"{data}/train-labels-idx1-ubyte.gz", 8, (-1,)).long()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index].float().div_(255).sub_(MEAN).div_(STDDEV), self.labels[index]


class ImagesAtOnce(Images):
    def __getitems__(self, indices):
        return self.images[indices].float().div_(255).sub_(MEAN).div_(STDDEV), self.labels[indices]


def make(form, data):
    if form == "getitem":
        return Images(data), {"batch_size": 64}
    return ImagesAtOnce(data), {"batch_size": 64, "collate_fn": lambda batch: batch}
