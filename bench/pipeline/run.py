"""The Python version of run.cc, for torch.distributed.pipelining: run.py wide|tiny STEPS FILE writes the milliseconds of each step to FILE, as JSON."""

import collections
import json
import os
import sys
import time

import torch
import torch.distributed
import torch.multiprocessing
from torch import nn
from torch.distributed import pipelining
from torch.distributed.pipelining.schedules import PipelineScheduleSingle, get_schedule_class

RANKS, WARM_UP = 2, 2
Net = collections.namedtuple("Net", "layers width rows microbatches")
NETS = {"wide": Net(32, 512, 128, 16), "tiny": Net(20, 32, 16, 32)}
CHUNKS = {
    "GPipe": 1, "1F1B": 1, "Interleaved1F1B": 2, "LoopedBFS": 2, "ZBH1": 1, "InterleavedZeroBubble": 2, "ZBVZeroBubble": 2,
    "DualPipeV": 2}
V_SHAPED = ("ZBVZeroBubble", "DualPipeV")
OTHER_NAMES = {"ZBH1": "InterleavedZeroBubble"}


class Stage(pipelining.PipelineStage):
    def _get_init_p2p_neighbors_ops(self):
        # torch connects ranks here before the first step. Gloo's ranks are connected already, and cannot send to themselves, as the two stages in the middle of a V would.
        return []


def layers_of(net, count):
    return nn.Sequential(*[layer for _ in range(count) for layer in (nn.Linear(net.width, net.width), nn.ReLU())])


def times_of(rank, net, name, steps):
    chunks = CHUNKS[name]
    count = RANKS * chunks
    indices = [rank, count - 1 - rank] if name in V_SHAPED else range(rank, count, RANKS)
    stages = [Stage(layers_of(net, net.layers // count), stage, count, torch.device("cpu")) for stage in indices]
    schedule_class = get_schedule_class(OTHER_NAMES.get(name, name))
    schedule = schedule_class(
        stages[0] if issubclass(schedule_class, PipelineScheduleSingle) else stages, net.microbatches,
        loss_fn=nn.functional.mse_loss)
    inputs = torch.randn(net.rows * net.microbatches, net.width)
    targets = torch.randn_like(inputs)
    has_last = indices[-1] == count - 1
    times = []
    for step in range(WARM_UP + steps):
        for stage in stages:
            stage.submod.zero_grad()
        torch.distributed.barrier()
        began = time.perf_counter()
        schedule.step(*([inputs] if rank == 0 else []), target=targets if has_last else None, losses=[] if has_last else None)
        longest = torch.tensor(1000 * (time.perf_counter() - began))
        torch.distributed.all_reduce(longest, torch.distributed.ReduceOp.MAX)
        if step >= WARM_UP:
            times.append(longest.item())
    return times


def train(rank, name, steps, path):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{path}.store", rank=rank, world_size=RANKS)
    times = {schedule: {"step": times_of(rank, NETS[name], schedule, steps)} for schedule in CHUNKS}
    if rank == 0:
        with open(path, "w") as file:
            json.dump(times, file)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.multiprocessing.start_processes(train, (sys.argv[1], int(sys.argv[2]), sys.argv[3]), nprocs=RANKS, start_method="fork")
