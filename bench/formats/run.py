"""What run.cc measures, for libraries of Python: run.py CASE FORM WORKERS SECONDS FOLDER FILE leaves the figures as JSON in FILE, and
run.py make CASE FOLDER makes the data.

CASE_FORM(folder, workers), in a module beside this file, returns the two functions that loader_run's measure() takes: one opens the batches, the
other counts the samples of a batch.
"""

import importlib
import json
import sys
from pathlib import Path

import torch

from loader_run import measure

MODULES = {"jpegs": "archives", "samples": "archives", "parquet": "parquet"}


def module_of(case):
    return importlib.import_module("formats_" + MODULES[case])


def main():
    if sys.argv[1] == "make":
        return module_of(sys.argv[2]).make(sys.argv[3])
    case, form, workers, seconds, folder, file = sys.argv[1:]
    open_batches, count = getattr(module_of(case), f"{case}_{form}")(folder, int(workers))
    Path(file).write_text(json.dumps(measure(open_batches, count, float(seconds))))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
