#!/usr/bin/env python3
"""A training in a few lines: gradient descent with momentum down a narrow valley. It reports after each epoch, and a restart goes on from its state."""

import argparse
import json
import os
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, required=True)
parser.add_argument("--momentum", type=float, required=True)
parser.add_argument("--epochs", type=int, default=20)
options = parser.parse_args()

directory = Path(os.environ.get("MUSTER_CHECKPOINT_DIR", "."))
directory.mkdir(parents=True, exist_ok=True)
state_file = directory / "state.json"
state = json.loads(state_file.read_text()) if state_file.exists() else {"epoch": 0, "place": [1.0, 1.0], "speed": [0.0, 0.0]}
while state["epoch"] < options.epochs:
    for axis, slope in enumerate((1, 10)):
        state["speed"][axis] = options.momentum * state["speed"][axis] - options.lr * slope * state["place"][axis]
        state["place"][axis] += state["speed"][axis]
    state["epoch"] += 1
    loss = sum(slope * place**2 / 2 for slope, place in zip((1, 10), state["place"]))
    print(f"MUSTER_METRIC loss={loss:.6g} step={state['epoch']}", flush=True)
    unfinished = directory / "state.json.new"
    unfinished.write_text(json.dumps(state))
    unfinished.rename(state_file)
