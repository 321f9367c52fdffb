"""The Python version of run.cc, for Python's libraries: run.py CASE FORM WORKERS SECONDS FOLDER FILE writes the figures as JSON to FILE;
run.py make CASE FOLDER makes the data.

CASE_FORM(folder, workers), in a module next to this file, returns the two functions for loader_run's measure(): one opens the batches, the
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
