"""Writes sampler_golden.txt: the orders of PyTorch's samplers, by the same torch.

    sampler_golden.py            writes the file's text to standard output
    sampler_golden.py --check    exits with 1 if it is not what the file beside this script holds

Run with the interpreter of the LibTorch that the runtime is built with. One line per case:
    kind arguments... seed epoch = count checksum [entries, if few]
"""

import sys
import warnings
from pathlib import Path

import torch
from torch.utils.data import BatchSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler, random_split
from torch.utils.data.distributed import DistributedSampler

SEEDS = ((0, 0), (0, 1), (12345, 7), (2**64 - 3, 2))
FEW = 8


class Sized:
    """The part of a dataset that a sampler uses."""

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size


def checksum(entries):
    value = 14695981039346656037
    for entry in entries:
        value = ((value ^ entry) * 1099511628211) % (1 << 64)
    return value


def line(kind, arguments, entries):
    shown = entries if len(entries) <= FEW else ()
    return " ".join(map(str, (kind, *arguments, "=", len(entries), checksum(entries), *shown)))


def generator_of(seed, epoch):
    return torch.Generator().manual_seed((seed + epoch) % (1 << 64))


def weight_of(index, zeros):
    return 0.0 if zeros and index % 3 == 1 else (index * 7919 % 1000 + 1) / 1000


def weights_of(size, zeros):
    return [weight_of(index, zeros) for index in range(size)]


def subset_of(size):
    return [index * 3 + 5 for index in range(size)]


def random_cases():
    for size, num_samples in (
        (1, 0), (1, 3), (2, 0), (7, 0), (7, 3), (7, 7), (7, 20), (100, 31), (997, 0), (997, 2500), (60000, 0), (60000, 64)
    ):
        for seed, epoch in SEEDS:
            for replacement in (False, True):
                sampler = RandomSampler(Sized(size), replacement, num_samples or None, generator_of(seed, epoch))
                yield line("random", (size, num_samples, int(replacement), seed, epoch), list(sampler))
    # torch draws numbers above 2^32 in another way.
    sampler = RandomSampler(Sized(2**33 + 1), True, 100, generator_of(1, 1))
    yield line("random", (2**33 + 1, 100, 1, 1, 1), list(sampler))


def subset_cases():
    for size in (1, 2, 9, 100, 30001):
        for seed, epoch in SEEDS:
            sampler = SubsetRandomSampler(subset_of(size), generator_of(seed, epoch))
            yield line("subset", (size, seed, epoch), list(sampler))


def weighted_cases():
    for size, num_samples, replacement, zeros in (
        (1, 1, 0, 0), (1, 5, 1, 0), (6, 1, 1, 1), (6, 1, 0, 1), (6, 5, 1, 0), (6, 6, 0, 0), (100, 60, 0, 1),
        (100, 1000, 1, 1), (997, 997, 0, 0), (997, 997, 1, 0), (20000, 20000, 1, 1), (20000, 5000, 0, 1),
    ):
        for seed, epoch in SEEDS:
            weights = weights_of(size, zeros)
            sampler = WeightedRandomSampler(weights, num_samples, bool(replacement), generator_of(seed, epoch))
            yield line("weighted", (size, num_samples, replacement, zeros, seed, epoch), list(sampler))


def distributed_cases():
    for size in (1, 2, 3, 4, 5, 7, 10, 31, 100, 997, 30001):
        for replicas in (1, 2, 3, 4, 8, 13):
            for drop_last in (False, True) if size >= replicas else (False,):
                for shuffle, seed, epoch in ((False, 0, 0), (True, 0, 0), (True, 12345, 7)):
                    for rank in sorted({0, replicas // 2, replicas - 1}):
                        sampler = DistributedSampler(Sized(size), replicas, rank, shuffle, seed, drop_last)
                        sampler.set_epoch(epoch)
                        arguments = (size, replicas, rank, int(shuffle), int(drop_last), seed, epoch)
                        yield line("distributed", arguments, list(sampler))


def distributed_weighted_cases():
    """A DistributedSampler over another sampler's order, as Python programs do it."""
    for size, num_samples, replicas in ((6, 5, 3), (100, 1000, 4), (997, 997, 13), (30001, 30001, 2)):
        for seed, epoch in SEEDS:
            drawn = list(WeightedRandomSampler(weights_of(size, 1), num_samples, True, generator_of(seed, epoch)))
            for rank in range(replicas):
                mine = [drawn[place] for place in DistributedSampler(drawn, replicas, rank, shuffle=False)]
                yield line("distributed_weighted", (size, num_samples, replicas, rank, seed, epoch), mine)


def batch_cases():
    """The batches of one rank, each after its length."""
    for size, replicas, rank in ((1, 1, 0), (10, 1, 0), (10, 3, 2), (11, 4, 1), (1000, 4, 3)):
        for batch_size in (1, 2, 3, 16):
            for drop_last in (False, True):
                for seed, epoch in SEEDS[:2]:
                    sampler = DistributedSampler(Sized(size), replicas, rank, seed=seed)
                    sampler.set_epoch(epoch)
                    batches = BatchSampler(sampler, batch_size, drop_last)
                    arguments = (size, replicas, rank, batch_size, int(drop_last), seed, epoch)
                    yield line("batches", arguments, [entry for batch in batches for entry in (len(batch), *batch)])


def split_cases():
    """The parts, each after its length. Lengths are samples or thousandths."""
    for size, fractions, lengths in (
        (1, 0, (1,)), (10, 0, (3, 7)), (10, 0, (0, 10)), (60000, 0, (48000, 10000, 2000)), (1, 1, (500, 500)),
        (11, 1, (500, 300, 200)), (997, 1, (900, 50, 50)), (60000, 1, (333, 333, 334)), (10, 1, (100, 200, 700)),
    ):
        for seed, epoch in SEEDS:
            given = [length / 1000 for length in lengths] if fractions else lengths
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about empty parts
                parts = random_split(Sized(size), given, generator_of(seed, epoch))
            entries = [entry for part in parts for entry in (len(part), *part.indices)]
            yield line("split", (size, fractions, *lengths, seed, epoch), entries)


def main():
    kinds = (
        random_cases, subset_cases, weighted_cases, distributed_cases, distributed_weighted_cases, batch_cases, split_cases
    )
    text = "".join(f"{case}\n" for cases in kinds for case in cases())
    if sys.argv[1:] != ["--check"]:
        sys.stdout.write(text)
        return 0
    held = Path(__file__).with_suffix(".txt").read_text()
    for number, (is_held, is_given) in enumerate(zip(held.splitlines(), text.splitlines()), 1):
        if is_held != is_given:
            print(f"line {number} of sampler_golden.txt is not what this torch gives:\n  {is_held}\n  {is_given}")
            break
    return 0 if held == text else 1


sys.exit(main())
