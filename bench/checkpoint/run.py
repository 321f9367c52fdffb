"""torch.save, torch.distributed.checkpoint and its async_save, for the benchmark of checkpoints.

    run.py DIRECTORY MIB RANKS ROUNDS      writes DIRECTORY/torch.json
"""

import json
import os
import shutil
import socket
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp


def drop_caches(directory):
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("1")
    except OSError:
        pass
    for path in Path(directory).rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def together(work):
    dist.barrier()
    begin = time.monotonic()
    value = work()
    took = torch.tensor([time.monotonic() - begin], dtype=torch.float64)
    dist.all_reduce(took, op=dist.ReduceOp.MAX)
    return took.item(), value


def run(rank, directory, mib, ranks, rounds, port):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    beside = dist.new_group()  # async_save runs collectives in a thread, at the same time as together()
    state = {f"weight{i}": torch.full((mib * (1 << 18) // 64 // 1024, 1024), 0.5) for i in range(64)}
    results = {}
    add = lambda name, value: results.setdefault(name, []).append(value)
    file, sharded = f"{directory}/torch.pt", f"{directory}/dcp"

    def save():
        if rank == 0:
            torch.save(state, file)
            with open(file, "rb") as written:
                os.fsync(written.fileno())

    def load_file():
        torch.load(file, map_location="cpu")

    def clear():
        dist.barrier()
        if rank == 0:
            shutil.rmtree(sharded, ignore_errors=True)
        dist.barrier()

    def cold():
        dist.barrier()
        if rank == 0:
            drop_caches(directory)

    for _ in range(rounds):
        add("torch.save", together(save)[0])
        clear()
        add("dcp.save", together(lambda: dcp.save(state, checkpoint_id=sharded))[0])
        clear()
        blocked, future = together(lambda: dcp.async_save(state, checkpoint_id=sharded, process_group=beside))
        add("async_save blocked", blocked)
        add("async_save committed", blocked + together(future.result)[0])
    for _ in range(rounds):
        cold()
        add("torch.load", together(load_file)[0])
        cold()
        add("dcp.load", together(lambda: dcp.load(state, checkpoint_id=sharded))[0])
    if rank == 0:
        Path(directory, "torch.json").write_text(json.dumps(results))
    dist.destroy_process_group()


if __name__ == "__main__":
    directory, mib, ranks, rounds = sys.argv[1], *map(int, sys.argv[2:5])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    mp.spawn(run, (directory, mib, ranks, rounds, port), nprocs=ranks)
