"""Sends the rows that a muster::Logger writes to metrics.jsonl to Weights & Biases, through W&B's own client.

    python3 -m muster.wandb runs/1 --project mine            until Ctrl-C or SIGTERM
    python3 -m muster.wandb runs/1 --project mine --once     only the rows that exist now

W&B is offline unless WANDB_MODE says otherwise; `wandb sync` uploads its files later. The training does not wait for this program. Each row is
sent once, although a training that resumes from a checkpoint cuts the file and writes rows again.
"""

import argparse
import json
import os
import signal
import sys
import threading


class Tail:
    """Reads whole lines of a file that grows, and sometimes gets shorter."""

    def __init__(self, path):
        self._path = path
        self._position = 0
        self._last = b""  # the line before the position, to notice that the file was cut

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
    """Sends each value whose step is beyond the steps already sent for its tag."""

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
    parser = argparse.ArgumentParser(prog="python3 -m muster.wandb", description="Sends a muster::Logger's rows to Weights & Biases.")
    parser.add_argument("directory", help="the logger's directory")
    parser.add_argument("--project", help="the W&B project")
    parser.add_argument("--name", help="the run's name (default: the directory's)")
    parser.add_argument("--once", action="store_true", help="send the existing rows, and end")
    arguments = parser.parse_args()
    directory = os.path.abspath(arguments.directory)
    if not os.path.isdir(directory) and arguments.once:
        parser.error(f"{arguments.directory}: no such directory")
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
