"""Trains the cases of ddp_parity_test.cc with torch.nn.parallel.DistributedDataParallel: ddp_parity.py FOLDER."""

import datetime
import os
import sys

import numpy
import torch
import torch.distributed
import torch.multiprocessing
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, post_localSGD_hook, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.algorithms.model_averaging import averagers
from torch.distributed.optim import PostLocalSGDOptimizer

STEPS, BATCH = 10, 6


class Net(torch.nn.Module):
    def __init__(self, branches):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 8, 3)
        self.norm = torch.nn.BatchNorm2d(8)
        self.conv2 = torch.nn.Conv2d(8, 16, 3)
        self.linear1 = torch.nn.Linear(16 * 4 * 4, 64)
        self.linear2 = torch.nn.Linear(64, 10)
        if branches:
            self.other = torch.nn.Linear(64, 10)
            self.never = torch.nn.Linear(64, 10)

    def forward(self, x, use_other):
        a = torch.relu(self.norm(self.conv1(x)))
        b = torch.max_pool2d(torch.relu(self.conv2(a)), 2)
        c = torch.relu(self.linear1(b.flatten(1)))
        return self.other(c) if use_other else self.linear2(c)


def load_parameters(net, values):
    at = 0
    with torch.no_grad():
        for parameter in net.parameters():
            part = values[at : at + parameter.numel()]
            parameter.copy_(torch.from_numpy(part).view_as(parameter))
            at += parameter.numel()


def orthogonalize_any(matrices, epsilon=0, orthogonalize=powerSGD_hook._orthogonalize):
    """batched_powerSGD_hook gives one matrix, which torch refuses."""
    orthogonalize(matrices if matrices.dim() == 3 else matrices.unsqueeze(0), epsilon)


powerSGD_hook._orthogonalize = orthogonalize_any


def train_all(rank, folder, world_size, cases):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store.{world_size}", rank=rank, world_size=world_size,
        timeout=datetime.timedelta(seconds=60))
    for number, (ranks, cap, *traits) in enumerate(cases):
        if int(ranks) == world_size:
            train(rank, folder, number, float(cap), set(traits))
    torch.distributed.destroy_process_group()


def train(rank, folder, number, cap, traits):
    def values_of(name):
        return [trait.removeprefix(name + "=") for trait in traits if trait.startswith(name + "=")]

    net = Net("branches" in traits)
    load_parameters(net, numpy.fromfile(f"{folder}/parameters", dtype=numpy.float32))
    images = torch.from_numpy(numpy.fromfile(f"{folder}/images", dtype=numpy.float32)).view(STEPS, 4, 2, BATCH, 1, 12, 12)
    labels = torch.from_numpy(numpy.fromfile(f"{folder}/labels", dtype=numpy.int64)).view(STEPS, 4, 2, BATCH)
    model = torch.nn.parallel.DistributedDataParallel(
        net, bucket_cap_mb=cap or None, gradient_as_bucket_view="bucket_views" in traits,
        find_unused_parameters="find_unused" in traits, static_graph="static_graph" in traits)
    for name, hook in (("fp16", default_hooks.fp16_compress_hook), ("bf16", default_hooks.bf16_compress_hook)):
        if name in traits:
            model.register_comm_hook(None, hook)
    averager = None
    for approximation_rank in values_of("batched"):
        state = powerSGD_hook.PowerSGDState(None, int(approximation_rank), start_powerSGD_iter=3, random_seed=7)
        model.register_comm_hook(state, powerSGD_hook.batched_powerSGD_hook)
    for approximation_rank in values_of("powersgd"):
        warm = "cold" not in traits
        state = powerSGD_hook.PowerSGDState(
            None, int(approximation_rank), start_powerSGD_iter=3, min_compression_rate=1.5, use_error_feedback=warm,
            warm_start=warm, random_seed=7)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    for start in values_of("localsgd"):
        alone = "alone" in traits
        pairs = [] if alone else [torch.distributed.new_group(pair) for pair in ([0, 1], [2, 3])]
        state = post_localSGD_hook.PostLocalSGDState(
            None, None if alone else pairs[rank // 2], int(start), post_local_gradient_allreduce=not alone)
        model.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)
        averager = averagers.PeriodicModelAverager(3, int(start))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    if "wrapped" in traits:
        optimizer, averager = PostLocalSGDOptimizer(optimizer, averager), None
    values = []

    def backward(step, part):
        use_other = {"find_unused", "branches"} <= traits and (step + rank) % 3 == 0
        output = model(images[step, rank, part], use_other)
        torch.nn.functional.cross_entropy(output, labels[step, rank, part]).backward()

    def train_steps(steps):
        for step in steps:
            optimizer.zero_grad()
            if "no_sync" in traits:
                with model.no_sync():
                    backward(step, 1)
            backward(step, 0)
            for norm_type in values_of("clip"):
                values.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5, float(norm_type)))
            optimizer.step()
            if averager:
                averager.average_parameters(net.parameters())
            values.extend(torch.full([1], -1.0) if p.grad is None else p.grad.detach().clone() for p in net.parameters())

    for counts in values_of("join"):
        first = int(counts.split(",")[rank])
        for steps in (range(first), range(first, STEPS)):
            with Join([model], divide_by_initial_world_size="by_active_ranks" not in traits):
                train_steps(steps)
    if not values_of("join"):
        train_steps(range(STEPS))
    values += [*net.parameters(), *net.buffers()]
    torch.cat([t.detach().float().flatten() for t in values]).numpy().tofile(f"{folder}/{number}.python.{rank}")


def main():
    folder = sys.argv[1]
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    with open(f"{folder}/cases.txt") as lines:
        cases = [line.split() for line in lines]
    for world_size in (2, 4):
        torch.multiprocessing.start_processes(train_all, (folder, world_size, cases), nprocs=world_size, start_method="fork")


if __name__ == "__main__":
    main()
