"""Writes torch_orders.txt: the pipeline schedules of Python's torch, in the words of its files.

    torch_orders.py            writes the file's text to standard output
    torch_orders.py --check    exits with 1 if it is not what the file beside this script holds

One line per case: name, ranks, microbatches, stages a rank, and the FNV-1a checksum of the schedule's file without idle
cells and reductions. torch makes no schedule without stages and a process group; what it computes of them are four numbers.
"""

import sys
from pathlib import Path

from torch.distributed.pipelining import schedules as torch_schedules

NAMES = {
    "GPipe": torch_schedules.ScheduleGPipe,
    "1F1B": torch_schedules.Schedule1F1B,
    "Interleaved1F1B": torch_schedules.ScheduleInterleaved1F1B,
    "LoopedBFS": torch_schedules.ScheduleLoopedBFS,
    "InterleavedZeroBubble": torch_schedules.ScheduleInterleavedZeroBubble,
    "ZBVZeroBubble": torch_schedules.ScheduleZBVZeroBubble,
    "DualPipeV": torch_schedules.ScheduleDualPipeV,
}
SINGLE = ("GPipe", "1F1B")
IN_ROUNDS = ("Interleaved1F1B", "InterleavedZeroBubble")
IN_V = ("ZBVZeroBubble", "DualPipeV")


def exists(name, ranks, microbatches, chunks):
    if name in SINGLE:
        return chunks == 1 and microbatches >= ranks
    if name in IN_V and chunks != 2 or chunks < 2:
        return False
    if name in IN_ROUNDS and microbatches % max(1, microbatches // ranks):
        return False
    return name != "DualPipeV" or microbatches >= 2 * ranks


def orders(name, ranks, microbatches, chunks):
    schedule = object.__new__(NAMES[name])
    schedule._stages = [None] * chunks
    schedule._n_microbatches = microbatches
    schedule.pp_group_size = ranks
    schedule.n_local_stages = chunks
    schedule._num_stages = schedule.num_stages = ranks * chunks
    schedule.microbatches_per_round = microbatches // max(1, microbatches // ranks)
    if name not in SINGLE:
        return [schedule._calculate_single_rank_operations(rank) for rank in range(ranks)]
    order = schedule._get_pipeline_order()
    if name == "1F1B":
        # When torch prints the last rank, it numbers the forwards from 1, although it runs them from 0.
        order[ranks - 1] = [
            action._replace(microbatch_index=action.microbatch_index - 1)
            if action is not None and action.computation_type == torch_schedules.FORWARD
            else action
            for action in order[ranks - 1]
        ]
    return [order[rank] for rank in range(ranks)]


def checksum(text):
    value = 14695981039346656037
    for byte in text.encode():
        value = ((value ^ byte) * 1099511628211) % (1 << 64)
    return value


def lines():
    for name in NAMES:
        for ranks in (1, 2, 3, 4, 8):
            for microbatches in (1, 2, 3, 4, 7, 8, 12, 16, 32):
                for chunks in (1, 2, 3, 4):
                    if not exists(name, ranks, microbatches, chunks):
                        continue
                    rows = [
                        [str(each) for each in order if each is not None and "REDUCE" not in str(each)]
                        for order in orders(name, ranks, microbatches, chunks)
                    ]
                    csv = "".join(",".join(row) + "\n" for row in rows)
                    yield f"{name} {ranks} {microbatches} {chunks} {checksum(csv)}\n"


def main():
    text = "".join(lines())
    if sys.argv[1:] != ["--check"]:
        sys.stdout.write(text)
        return 0
    known = Path(__file__).with_suffix(".txt").read_text(encoding="ascii")
    if text == known:
        return 0
    print("torch_orders.txt is not what this torch has: torch_orders.py > torch_orders.txt", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
