"""The Python version of step.cc: step.py cnn|tiny STEPS FILE writes the median milliseconds of a step on rank 0 to FILE."""

import os
import statistics
import sys
import time

import torch
import torch.distributed
import torch.multiprocessing
from torch import nn

RANKS, WARM_UP = 2, 20


class Cnn(nn.Module):
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


def net_and_batch(name):
    if name == "cnn":
        return Cnn(), torch.randn(64, 1, 28, 28), torch.randint(10, (64,))
    layers = [layer for _ in range(20) for layer in (nn.Linear(32, 32), nn.ReLU())]
    return nn.Sequential(*layers), torch.randn(16, 32), torch.randint(32, (16,))


def train(rank, name, steps, path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{path}.store", rank=rank, world_size=RANKS)
    net, inputs, classes = net_and_batch(name)
    model = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    times = []
    for step in range(WARM_UP + steps):
        began = time.perf_counter()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), classes).backward()
        optimizer.step()
        if step >= WARM_UP:
            times.append(1000 * (time.perf_counter() - began))
    if rank == 0:
        with open(path, "w") as file:
            file.write(f"{statistics.median(times)}\n")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.multiprocessing.start_processes(train, (sys.argv[1], int(sys.argv[2]), sys.argv[3]), nprocs=RANKS, start_method="fork")
