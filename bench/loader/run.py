"""The Python version of run.cc, for Python's DataLoader: run.py CASE FORM WORKERS SECONDS DATA FILE writes the figures as JSON to FILE.

A case is a module loader_CASE next to this file; its make(form, data) returns the dataset and the DataLoader's other arguments.
"""

import importlib
import json
import os
import sys
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader


def workers_of(process):
    return Path(f"/proc/{process}/task/{process}/children").read_text().split()


def cpu_seconds():
    """The CPU time of this process and its workers, which are not reaped yet."""
    total = time.process_time()
    for pid in workers_of(os.getpid()):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def kilobytes(path, name):
    return sum(int(line.split()[1]) for line in Path(path).read_text().splitlines() if line.startswith(name))


def peak_mib():
    """This process's peak memory plus its workers' private memory."""
    own = kilobytes("/proc/self/status", "VmHWM:")
    return (own + sum(kilobytes(f"/proc/{pid}/smaps_rollup", "Private_") for pid in workers_of(os.getpid()))) / 1024


def for_ever(loader):
    while True:
        yield from loader


def measure(open_batches, count, seconds):
    """Measures the endless batches of open_batches(); count(batch) is the number of samples in a batch."""
    opened = time.perf_counter()
    batches = open_batches()
    next(batches)
    first_batch = time.perf_counter() - opened
    warm_up = time.perf_counter()
    while time.perf_counter() - warm_up < 0.1:
        next(batches)
    cpu_before, began, samples = cpu_seconds(), time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        samples += count(next(batches))
    elapsed = time.perf_counter() - began
    return {
        "samples_per_second": samples / elapsed,
        "cpu_seconds_per_million": (cpu_seconds() - cpu_before) / samples * 1e6,
        "peak_mib": peak_mib(),
        "first_batch_ms": first_batch * 1e3,
    }


def main():
    case, form, workers, seconds, data, file = sys.argv[1:]
    dataset, options = importlib.import_module("loader_" + case).make(form, data)
    workers = int(workers)
    figures = measure(
        lambda: for_ever(DataLoader(dataset, shuffle=True, num_workers=workers, persistent_workers=workers > 0, **options)),
        lambda batch: len(batch[1]), float(seconds))
    Path(file).write_text(json.dumps(figures))


if __name__ == "__main__":
    torch.manual_seed(1)
    main()
