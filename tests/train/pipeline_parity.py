"""Trains the cases of pipeline_parity_test.cc with torch.distributed.pipelining: pipeline_parity.py FOLDER."""

import datetime
import os
import sys

import numpy
import torch
import torch.distributed
import torch.multiprocessing
from torch.distributed import pipelining
from torch.distributed.pipelining.schedules import PipelineScheduleSingle, get_schedule_class

STEPS, LAYERS, WIDTH, MICROBATCH_SIZE = 5, 8, 6, 3
V_SHAPED = ("ZBVZeroBubble", "DualPipeV")
OTHER_NAMES = {"ZBH1": "InterleavedZeroBubble"}


class Part(torch.nn.Module):
    def __init__(self, first, last, numbers):
        super().__init__()
        self.layers = torch.nn.ModuleList()
        for layer in range(first, last):
            linear = torch.nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
            with torch.no_grad():
                linear.weight.copy_(numbers[layer, :-WIDTH].view(WIDTH, WIDTH))
                linear.bias.copy_(numbers[layer, -WIDTH:])
            self.layers.append(linear)

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return x


class Stage(pipelining.PipelineStage):
    def _get_init_p2p_neighbors_ops(self):
        # Does nothing: these operations would connect ranks before the first step. Gloo's ranks are connected, and cannot send to
        # themselves, as these would where two stages of a V meet.
        return []


class ToItself:
    """Messages of a rank to itself, where two stages of a V meet: torch 2.9 sends them, and Gloo cannot.

    A message is sent once it has been waited for, and messages arrive in the order of sending."""

    sent, received_count, others = [], 0, torch.distributed.batch_isend_irecv

    def __init__(self, tensor):
        self.tensor, self.number = tensor, ToItself.received_count
        ToItself.received_count += 1

    def wait(self):
        self.tensor.detach().copy_(ToItself.sent[self.number])

    @staticmethod
    def batch(ops):
        own = [op for op in ops if op.peer == torch.distributed.get_rank()]
        ToItself.sent += [op.tensor.detach().clone() for op in own if op.op is torch.distributed.isend]
        others = [op for op in ops if op.peer != torch.distributed.get_rank()]
        works = ToItself.others(others) if others else []
        return works + [ToItself(op.tensor) for op in own if op.op is torch.distributed.irecv]


torch.distributed.batch_isend_irecv = ToItself.batch


def read_numbers(folder, name, *shape):
    return torch.from_numpy(numpy.fromfile(f"{folder}/{name}", dtype=numpy.float64)).view(*shape)


def train_all(rank, folder, world_size, cases):
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store.{world_size}", rank=rank, world_size=world_size,
        timeout=datetime.timedelta(seconds=60))
    for number, (ranks, name, chunks, n_microbatches) in enumerate(cases):
        if int(ranks) == world_size:
            train(rank, world_size, folder, number, name, int(chunks), int(n_microbatches))
    torch.distributed.destroy_process_group()


def train(rank, world_size, folder, number, name, chunks, n_microbatches):
    parameters = read_numbers(folder, "parameters", LAYERS, -1)
    inputs = read_numbers(folder, "inputs", STEPS, -1, WIDTH)[:, : n_microbatches * MICROBATCH_SIZE]
    targets = read_numbers(folder, "targets", STEPS, -1, WIDTH)[:, : n_microbatches * MICROBATCH_SIZE]
    count = world_size * chunks
    indices = [rank, count - 1 - rank] if name in V_SHAPED else range(rank, count, world_size)
    stages = [
        Stage(
            Part(stage * LAYERS // count, (stage + 1) * LAYERS // count, parameters), stage, count, torch.device("cpu"))
        for stage in indices
    ]
    schedule_class = get_schedule_class(OTHER_NAMES.get(name, name))
    schedule = schedule_class(
        stages[0] if issubclass(schedule_class, PipelineScheduleSingle) else stages, n_microbatches,
        loss_fn=torch.nn.functional.mse_loss, scale_grads=False)
    weights = [parameter for stage in stages for parameter in stage.submod.parameters()]
    optimizer = torch.optim.SGD(weights, lr=0.2, momentum=0.9)
    values = []
    for step in range(STEPS):
        optimizer.zero_grad()
        losses = []
        has_last = indices[-1] == count - 1
        schedule.step(
            *([inputs[step]] if rank == 0 else []), target=targets[step] if has_last else None,
            losses=losses if has_last else None)
        if has_last:
            values.append(torch.stack(losses).mean())
        for weight in weights:  # torch 2.9 does not scale a stage's gradients if its last action is a weight's gradient
            weight.grad.div_(n_microbatches)
        optimizer.step()
    torch.cat([value.detach().flatten() for value in values + weights]).numpy().tofile(f"{folder}/{number}.python.{rank}")


def main():
    folder = sys.argv[1]
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    with open(f"{folder}/cases.txt") as lines:
        cases = [line.split() for line in lines]
    for world_size in (2, 4):
        torch.multiprocessing.start_processes(train_all, (folder, world_size, cases), nprocs=world_size, start_method="fork")


if __name__ == "__main__":
    main()
