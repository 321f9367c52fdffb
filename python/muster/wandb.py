"""Weights & Biases beside a training: what a muster::Logger writes to metrics.jsonl is passed on to W&B's own client.

    python3 -m muster.wandb runs/1 --project mine            until it is ended (Ctrl-C, SIGTERM)
    python3 -m muster.wandb runs/1 --project mine --once     what is there

W&B is offline unless WANDB_MODE says otherwise; `wandb sync` uploads its files later. The training neither waits for it nor knows of it. What
is there of a step once is passed on once, though the file is cut and written again when a training goes on from a checkpoint.
"""

import argparse
import json
import os
import signal
import sys
import threading


class Tail:
    """Whole lines of a file that grows and, now and then, gets shorter."""

    def __init__(self, path):
        self._path = path
        self._position = 0
        self._last = b""  # what stands before the position, if the file is still the one that was read

    def read(self):
        try:
            with open(self._path, "rb") as file:
                file.seek(self._position - len(self._last))
                if file.read(len(self._last)) != self._last:
                    self._position, self._last = 0, b""
                    file.seek(0)
                lines = file.read().splitlines(keepends=True)
        except FileNotFoundError:
            return []
        if lines and not lines[-1].endswith(b"\n"):
            lines.pop()
        for line in lines:
            self._position += len(line)
            self._last = line
        return lines


class Passing:
    """Each value of a tag with a step beyond those that were passed on."""

    def __init__(self, run):
        self._run = run
        self._newest = {}
        run.define_metric("step")
        run.define_metric("*", step_metric="step")

    def line(self, line):
        row = json.loads(line)
        if "hparams" in row:
            self._run.config.update(row["hparams"], allow_val_change=True)
            return
        step = row.pop("step")
        row.pop("time", None)
        new = {tag: value for tag, value in row.items() if value is not None and self._newest.get(tag, -1) < step}
        self._newest.update(dict.fromkeys(new, step))
        if new:
            self._run.log({"step": step, **new})


def main():
    parser = argparse.ArgumentParser(prog="python3 -m muster.wandb", description="Passes a muster::Logger's rows on to Weights & Biases.")
    parser.add_argument("directory", help="the logger's")
    parser.add_argument("--project", help="W&B's project")
    parser.add_argument("--name", help="the run's name (default: the directory's)")
    parser.add_argument("--once", action="store_true", help="pass on what is there, and end")
    arguments = parser.parse_args()
    directory = os.path.abspath(arguments.directory)
    if not os.path.isdir(directory) and arguments.once:
        parser.error(f"{arguments.directory}: there is no such directory")
    try:
        import wandb
    except ImportError:
        parser.error("wandb is not installed: pip install wandb")
    os.environ.setdefault("WANDB_MODE", "offline")
    ended = threading.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: ended.set())
    run = wandb.init(project=arguments.project, name=arguments.name or os.path.basename(directory), dir=directory if os.path.isdir(directory) else None)
    passing, tail = Passing(run), Tail(os.path.join(directory, "metrics.jsonl"))
    while True:
        last = arguments.once or ended.is_set()
        for line in tail.read():
            passing.line(line)
        if last:
            break
        ended.wait(1)
    run.finish()


if __name__ == "__main__":
    sys.exit(main())
