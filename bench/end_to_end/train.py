"""The Python version of examples/fashion_mnist: train.py DATA_DIR LOADER_PROCESSES CHECKPOINT, under torchrun.

It has the same net, images, batches, optimizer and test. It gathers each batch at once (__getitems__), for the fastest
loader.
"""

import gzip
import sys

import numpy
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

BATCH, LEARNING_RATE, CHECKPOINT_EVERY, SEED = 64, 2e-3, 100, 1
MEAN, STDDEV = 0.2860, 0.3530


def read_idx(path, header):
    with gzip.open(path) as file:
        return torch.from_numpy(numpy.frombuffer(file.read(), numpy.uint8, offset=header).copy())


class Images(Dataset):
    def __init__(self, folder, name):
        self.pixels = read_idx(f"{folder}/{name}-images-idx3-ubyte.gz", 16).view(-1, 1, 28, 28)
        self.labels = read_idx(f"{folder}/{name}-labels-idx1-ubyte.gz", 8).long()

    def __len__(self):
        return len(self.labels)

    def __getitems__(self, indices):
        rows = torch.tensor(indices)
        return (self.pixels[rows].float() / 255 - MEAN) / STDDEV, self.labels[rows]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.linear1 = nn.Linear(32 * 7 * 7, 128)
        self.dropout = nn.Dropout(0.25)
        self.linear2 = nn.Linear(128, 10)

    def forward(self, images):
        x = torch.max_pool2d(torch.relu(self.conv1(images)), 2)
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.linear2(self.dropout(torch.relu(self.linear1(x.flatten(1)))))


def test_accuracy(net, images, rank, world_size):
    net.eval()
    right = torch.zeros(2)
    with torch.no_grad():
        mine = list(range(rank, len(images), world_size))
        for begin in range(0, len(mine), 500):
            data, target = images.__getitems__(mine[begin : begin + 500])
            right += torch.tensor([(net(data).argmax(1) == target).sum(), len(target)])
    dist.all_reduce(right)
    return (right[0] / right[1]).item()


def main(folder, workers, checkpoint):
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    train, test = Images(folder, "train"), Images(folder, "t10k")
    torch.manual_seed(SEED)
    net = Net()
    model = DistributedDataParallel(net)
    torch.manual_seed(SEED + 1 + rank)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    sampler = DistributedSampler(train, seed=SEED)
    loader = DataLoader(train, BATCH, sampler=sampler, num_workers=workers, collate_fn=lambda batch: batch)
    mean_loss = 0.0
    for step, (data, target) in enumerate(loader, 1):
        optimizer.zero_grad()
        loss = cross_entropy(model(data), target)
        loss.backward()
        optimizer.step()
        mean_loss += (loss.item() - mean_loss) / min(step, 50)
        if rank == 0 and step % CHECKPOINT_EVERY == 0:
            torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, checkpoint)
    accuracy = test_accuracy(net, test, rank, world_size)
    if rank == 0:
        print(f"loss {mean_loss:.4f} test accuracy {accuracy:.4f}")
    dist.barrier()
    del model  # the model keeps the group, and its running threads sometimes abort the interpreter's exit
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
