"""Writes sampler_golden.txt: what Python's DistributedSampler of the same torch gives.

Run with the interpreter of the LibTorch that the runtime is built with. One line per case:
size replicas rank shuffle seed epoch drop_last count checksum [indices, if at most 12]
"""

from torch.utils.data import Dataset
from torch.utils.data.distributed import DistributedSampler


class Numbers(Dataset):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size


def checksum(indices):
    value = 14695981039346656037
    for index in indices:
        value = ((value ^ index) * 1099511628211) % (1 << 64)
    return value


for size in (1, 2, 3, 4, 5, 7, 10, 31, 100, 997, 30001, 60000):
    for replicas in (1, 2, 3, 4, 8, 13):
        # With fewer examples than replicas Python's drop_last gives a negative number of samples.
        for drop_last in (False, True) if size >= replicas else (False,):
            for shuffle, seed, epoch in ((False, 0, 0), (True, 0, 0), (True, 0, 1), (True, 12345, 7)):
                for rank in sorted({0, replicas // 2, replicas - 1}):
                    sampler = DistributedSampler(Numbers(size), replicas, rank, shuffle, seed, drop_last)
                    sampler.set_epoch(epoch)
                    indices = list(sampler)
                    case = (size, replicas, rank, int(shuffle), seed, epoch, int(drop_last), len(indices))
                    print(*case, checksum(indices), *(indices if len(indices) <= 12 and size <= 100 else ()))
