#!/usr/bin/env python3
"""The collectives of cases.txt by torch.distributed, for collectives_parity_test.cc.

    collectives_parity.py DIR

Forks five ranks, which meet over DIR/store, make the groups of DIR/groups.txt (ranks, a line each), do what the lines of DIR/cases.txt say
(group operation reduction type root sizes seed), and write the bytes of every result to DIR/python-RANK.
"""

import os
import sys

import torch
import torch.distributed as dist

WORLD_SIZE = 5
TYPES = {name: getattr(torch, name) for name in "float32 float64 float16 bfloat16 int8 uint8 int32 int64 bool".split()}
REDUCTIONS = {name: getattr(dist.ReduceOp, name.upper()) for name in "sum min max product avg band bor bxor".split()}


def tensor_of(sizes, kind, place, part, seed):
    """The same as tensor_of() in C++."""
    count = 1
    for size in sizes:
        count *= size
    values = torch.remainder(torch.arange(count, dtype=torch.int64) * 7 + place * 5 + part * 3 + seed, 11)
    if kind != "uint8":
        values = values - 5
    if TYPES[kind].is_floating_point:
        values = values.to(torch.float64).div(3.0)
    return values.to(TYPES[kind]).view(sizes)


def results_of(operation, group, ranks, reduction, kind, root, sizes, seed):
    place, size = dist.get_rank(group), len(ranks)
    mine = tensor_of(sizes, kind, place, 0, seed)
    parts = [tensor_of(sizes, kind, place, part, seed) for part in range(size)]
    empty = [torch.empty_like(mine) for _ in range(size)]
    whole = torch.empty((size * mine.numel(),), dtype=mine.dtype)
    if operation == "all_reduce":
        dist.all_reduce(mine, REDUCTIONS[reduction], group)
        return [mine]
    if operation == "broadcast":
        dist.broadcast(mine, ranks[root], group)
        return [mine]
    if operation == "all_gather":
        dist.all_gather(empty, mine, group)
        return empty
    if operation == "all_gather_into_tensor":
        dist.all_gather_into_tensor(whole, mine.view(-1), group)
        return [whole]
    if operation == "reduce_scatter":
        dist.reduce_scatter(mine, parts, REDUCTIONS[reduction], group)
        return [mine]
    if operation == "reduce_scatter_tensor":
        dist.reduce_scatter_tensor(mine.view(-1), torch.cat([part.view(-1) for part in parts]), REDUCTIONS[reduction], group)
        return [mine]
    if operation == "all_to_all_single":
        # Place p sends q + 1 rows to place q.
        rows = size * (size + 1) // 2
        sent = tensor_of([rows, *sizes], kind, place, 0, seed)
        received = torch.empty((size * (place + 1), *sizes), dtype=mine.dtype)
        dist.all_to_all_single(received, sent, [place + 1] * size, list(range(1, size + 1)), group=group)
        return [received]
    if operation == "gather":
        dist.gather(mine, empty if place == root else None, ranks[root], group)
        return empty if place == root else []
    if operation == "scatter":
        dist.scatter(mine, parts if place == root else None, ranks[root], group)
        return [mine]
    if operation == "ring":
        work = [dist.isend(mine, ranks[(place + 1) % size], group), dist.irecv(whole[: mine.numel()], ranks[place - 1], group)]
        for each in work:
            each.wait()
        return [whole[: mine.numel()]]
    if operation in ("all_gather_uneven", "gather_uneven"):
        # Gloo cannot gather tensors of different shapes: they are sent as objects.
        uneven = tensor_of([max(sizes[0] + place - 1, 0), *sizes[1:]], kind, place, 0, seed)
        tensors = [None] * size
        dist.all_gather_object(tensors, uneven, group)
        return tensors if operation == "all_gather_uneven" or place == root else []
    if operation == "all_gather_object":
        objects = [None] * size
        dist.all_gather_object(objects, {"place": place, "seed": seed}, group)
        return [torch.tensor([each["place"], each["seed"]]) for each in objects]
    raise ValueError(operation)


def run(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD_SIZE)
    with open(f"{folder}/groups.txt", encoding="utf-8") as file:
        all_ranks = [[int(word) for word in line.split()] for line in file]
    groups = [dist.new_group(ranks) for ranks in all_ranks]
    with open(f"{folder}/cases.txt", encoding="utf-8") as cases, open(f"{folder}/python-{rank}", "wb") as output:
        for line in cases:
            number, operation, reduction, kind, root, sizes, seed = line.split()
            ranks = all_ranks[int(number)]
            if rank not in ranks:
                continue
            sizes = [int(size) for size in sizes.split(",") if size]
            output.write(f"{line.strip()}\n".encode())
            for result in results_of(operation, groups[int(number)], ranks, reduction, kind, int(root), sizes, int(seed)):
                output.write(bytes(result.contiguous().view(-1).view(torch.uint8).tolist()))
    dist.barrier()


def main():
    children = []
    for rank in range(WORLD_SIZE):
        child = os.fork()
        if child == 0:
            try:
                run(rank, sys.argv[1])
            except BaseException as error:  # printed; the child must never run the parent's code
                print(f"rank {rank}: {error}", file=sys.stderr, flush=True)
                os._exit(1)
            os._exit(0)
        children.append(child)
    sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))


if __name__ == "__main__":
    main()
