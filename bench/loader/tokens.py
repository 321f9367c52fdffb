"""A file of tokens as a Python dataset: numpy.memmap, one sample at a time or a batch at once."""

import numpy
import torch
from torch.utils.data import Dataset

CONTEXT = 2048


class Tokens(Dataset):
    def __init__(self, data):
        self.tokens = numpy.memmap(data, numpy.uint16, "r")

    def __len__(self):
        return (len(self.tokens) - 1) // CONTEXT

    def __getitem__(self, index):
        first = index * CONTEXT
        tokens = torch.from_numpy(self.tokens[first : first + CONTEXT + 1].astype(numpy.int64))
        return tokens[:-1], tokens[1:]


class TokensAtOnce(Tokens):
    def __getitems__(self, indices):
        rows = [self.tokens[index * CONTEXT : (index + 1) * CONTEXT + 1] for index in indices]
        tokens = torch.from_numpy(numpy.stack(rows).astype(numpy.int64))
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def make(form, data):
    if form == "getitem":
        return Tokens(data), {"batch_size": 16}
    return TokensAtOnce(data), {"batch_size": 16, "collate_fn": lambda batch: batch}
