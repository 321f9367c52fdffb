"""An ordinary DDP script with its own snapshots: it reports nothing to its launcher.

usage: snapshot_job.py DIRECTORY STEPS STEP_SECONDS SNAPSHOT_EVERY
Rank 0 stamps in DIRECTORY/stamps: `A` when its process began, `S STEP` after each step; seconds since boot.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

DIRECTORY, STEPS, STEP_SECONDS, SNAPSHOT_EVERY = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
SNAPSHOT = os.path.join(DIRECTORY, "snapshot.pt")


def began():
    with open("/proc/self/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    stamps = os.open(os.path.join(DIRECTORY, "stamps"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def stamp(what, at):
        if rank == 0:
            os.write(stamps, f"{what} {at:.6f}\n".encode())

    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    first = 0
    if os.path.exists(SNAPSHOT):
        state = torch.load(SNAPSHOT)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    dist.barrier()  # no rank saves before all have read
    stamp("A", began())
    for step in range(first, STEPS):
        begin = time.monotonic()
        generator = torch.Generator().manual_seed(1000 * step + rank)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(torch.randn(32, 64, generator=generator)),
                                          torch.randint(8, (32,), generator=generator)).backward()
        optimizer.step()
        time.sleep(max(0.0, begin + STEP_SECONDS - time.monotonic()))
        stamp(f"S {step}", time.clock_gettime(time.CLOCK_BOOTTIME))
        if rank == 0 and (step + 1) % SNAPSHOT_EVERY == 0:
            torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1},
                       SNAPSHOT + ".tmp")
            os.replace(SNAPSHOT + ".tmp", SNAPSHOT)
    dist.destroy_process_group()


main()
