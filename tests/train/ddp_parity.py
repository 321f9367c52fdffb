"""Trains the cases of ddp_parity_test.cc with torch.nn.parallel.DistributedDataParallel: ddp_parity.py FOLDER."""

import datetime
import os
import sys

import numpy
import torch
import torch.distributed
import torch.multiprocessing

STEPS, BATCH, PIXELS = 5, 6, 12 * 12


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 8, 3)
        self.norm = torch.nn.BatchNorm2d(8)
        self.conv2 = torch.nn.Conv2d(8, 16, 3)
        self.linear1 = torch.nn.Linear(16 * 4 * 4, 64)
        self.linear2 = torch.nn.Linear(64, 10)

    def forward(self, x):
        a = torch.relu(self.norm(self.conv1(x)))
        b = torch.max_pool2d(torch.relu(self.conv2(a)), 2)
        return self.linear2(torch.relu(self.linear1(b.flatten(1))))


def load_parameters(net, values):
    at = 0
    with torch.no_grad():
        for parameter in net.parameters():
            part = values[at : at + parameter.numel()]
            parameter.copy_(torch.from_numpy(part).view_as(parameter))
            at += parameter.numel()


def train(rank, folder, name, world_size, cap, views, unused, static):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/{name}.store", rank=rank, world_size=world_size,
        timeout=datetime.timedelta(seconds=60))
    net = Net()
    load_parameters(net, numpy.fromfile(f"{folder}/parameters", dtype=numpy.float32))
    images = torch.from_numpy(numpy.fromfile(f"{folder}/images", dtype=numpy.float32)).view(STEPS, 4, BATCH, 1, 12, 12)
    labels = torch.from_numpy(numpy.fromfile(f"{folder}/labels", dtype=numpy.int64)).view(STEPS, 4, BATCH)
    model = torch.nn.parallel.DistributedDataParallel(
        net, bucket_cap_mb=cap or None, gradient_as_bucket_view=views, find_unused_parameters=unused, static_graph=static)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(STEPS):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images[step, rank]), labels[step, rank]).backward()
        optimizer.step()
    state = [t.detach().float().flatten() for t in [*net.parameters(), *net.buffers()]]
    torch.cat(state).numpy().tofile(f"{folder}/{name}.python.{rank}")
    torch.distributed.destroy_process_group()


def main():
    folder = sys.argv[1]
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    with open(f"{folder}/cases.txt") as lines:
        for line in lines:
            name, world_size, cap, views, unused, static = line.split()
            torch.multiprocessing.start_processes(
                train, (folder, name, int(world_size), float(cap), views == "1", unused == "1", static == "1"),
                nprocs=int(world_size), start_method="fork")


if __name__ == "__main__":
    main()
