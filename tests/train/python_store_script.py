"""A script written for torchrun that uses the job's store and groups, with all methods that its torch has, old or new.

usage: python_store_script.py
Each rank prints what it has done, in one line; otherwise an assertion fails.
"""
import os

import torch
import torch.distributed as dist

WORDS = ["queues", "list_keys", "barrier", "clone", "all_gather_single", "reduce_scatter_single", "new_subgroups"]


def queues(store, rank, world_size):
    store.queue_push("work", str(rank))
    if rank == 0:
        assert sorted(store.queue_pop("work") for _ in range(world_size)) == [str(each).encode() for each in range(world_size)]
    dist.barrier()
    assert store.queue_len("work") == 0


def list_keys(store, rank, world_size):
    store.set(f"rank{rank}", "here")
    store.get(f"rank{rank}")  # set() does not wait for the store, and the barrier does not go through it
    dist.barrier()
    assert {f"script/rank{each}" for each in range(world_size)} <= set(store.underlying_store.list_keys())


def barrier(store, rank, world_size):
    for turn in range(3):
        store.add(f"came{turn}", 1)
        store.barrier(f"turn{turn}", world_size)
        assert store.get(f"came{turn}") == str(world_size).encode()


def clone(store, rank, world_size):
    store.clone().set(f"cloned{rank}", str(rank))
    assert store.get(f"cloned{(rank + 1) % world_size}") == str((rank + 1) % world_size).encode()


def all_gather_single(store, rank, world_size):
    output = torch.empty(world_size)
    dist.all_gather_single(output, torch.tensor([float(rank)]))
    assert output.tolist() == list(range(world_size))


def reduce_scatter_single(store, rank, world_size):
    output = torch.empty(1)
    dist.reduce_scatter_single(output, torch.arange(float(world_size)))
    assert output.item() == rank * world_size


def new_subgroups(store, rank, world_size):
    group, _ = dist.new_subgroups(2)
    total = torch.tensor([float(rank)])
    dist.all_reduce(total, group=group)
    assert total.item() == 2 * rank + (-1 if rank % 2 else 1)


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = dist.PrefixStore("script", dist.TCPStore(*address, is_master=False))
    done = []
    for word in WORDS:
        if hasattr(dist.Store if word in ("list_keys", "barrier", "clone") else dist, word) or word == "queues":
            globals()[word](store, rank, world_size)
            done.append(word)
    # An older torch lacks some of them. From 2.15 on torch has them all, so a left-out one would be a wrong name here.
    if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 15):
        assert done == list(WORDS), f"left out: {set(WORDS) - set(done)}"
    print(f"rank {rank} did {' '.join(done)}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
