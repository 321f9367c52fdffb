#!/usr/bin/env python3
"""The program of `./dev demo`: a training job that loses a worker ends with the same parameters, bit for bit, as an undisturbed one.

Runs launch with the Fashion-MNIST example twice on this machine, on 2 nodes with 2 workers each, and compares the two
runs' own reports. Exits with 0 only if all claims that it prints are true.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAMS = Path("build/release/bin")
INTERVAL = 100
LOST_RANK, LOST_AT = 2, 350
LEAST_ACCURACY = 0.88


def say(text):
    color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    print(f"\033[1mdemo: {text}\033[0m" if color else f"demo: {text}", flush=True)


def launch(directory, extra):
    """Runs the job and returns its report; the job's output goes to this program's output."""
    command = [str(PROGRAMS / "launch"), "--nodes", "2", "--gpus-per-node", "2", "--device", "cpu", "--max-restarts", "3",
               "--checkpoint-dir", str(directory / "checkpoints"), "--log-dir", str(directory / "logs"),
               str(PROGRAMS / "train_fashion_mnist"), "--epochs", "3", "--checkpoint-every", str(INTERVAL), *extra]
    print(shlex.join(command), flush=True)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        process.wait()
    except BaseException:  # Ctrl-C or TERM: wait until the launcher has stopped its workers
        process.terminate()
        process.wait()
        raise
    reports = sorted(directory.glob("logs/**/report.json"))
    if not reports:
        sys.exit(f"demo: launch ended with {process.returncode} and left no report.json")
    report = json.loads(reports[-1].read_text())
    if process.returncode != 0:
        sys.exit(f"demo: launch ended with {process.returncode}")
    output = "".join(path.read_text(errors="replace") for path in sorted(reports[-1].parent.rglob("stdout.log")))
    report["parameters"] = last(r"parameters xxh3 ([0-9a-f]+)", output)
    report["accuracy"] = float(last(r"test accuracy ([0-9.]+)", output) or "nan")
    return report


def last(pattern, text):
    found = re.findall(pattern, text)
    return found[-1] if found else None


def compare(undisturbed, recovered):
    """Prints the two runs' reports; returns the claims that do not hold."""
    attempts = recovered["attempts"]
    again = attempts[-1]
    resumed, repeated = again["resumed_step"] or 0, again["repeated_steps"] or 0
    culprit = attempts[0].get("culprit") or {}
    say("what the two runs report:")
    print(f"  lost            {culprit.get('cause', 'nothing')}")
    print(f"  resumed at      step {resumed}")
    print(f"  repeated        {repeated} steps (a checkpoint every {INTERVAL})")
    print(f"  parameters      {undisturbed['parameters']} undisturbed")
    print(f"                  {recovered['parameters']} recovered")
    print(f"  test accuracy   {undisturbed['accuracy']:.2%} undisturbed, {recovered['accuracy']:.2%} recovered", flush=True)
    checks = {
        "the undisturbed run was not disturbed": undisturbed["restarts"] == 0,
        f"the other run lost rank {LOST_RANK} by SIGKILL and started again once": recovered["restarts"] == 1
        and (culprit.get("rank"), culprit.get("signal")) == (LOST_RANK, signal.SIGKILL),
        "it resumed from a checkpoint": resumed > 0,
        "it repeated fewer steps than lie between two checkpoints": 0 < repeated < INTERVAL,
        "both runs end with the same parameters": recovered["parameters"] is not None
        and recovered["parameters"] == undisturbed["parameters"],
        f"both reach {LEAST_ACCURACY:.0%}": min(undisturbed["accuracy"], recovered["accuracy"]) >= LEAST_ACCURACY,
    }
    return [what for what, holds in checks.items() if not holds]


def main():
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    directory = Path(tempfile.mkdtemp(prefix="muster-demo-"))
    try:
        say("an undisturbed run")
        undisturbed = launch(directory / "undisturbed", [])
        say(f"a run that loses rank {LOST_RANK} by SIGKILL at step {LOST_AT}, between two checkpoints")
        recovered = launch(directory / "recovered", ["--fail-at", f"{LOST_RANK}:{LOST_AT}"])
        failed = compare(undisturbed, recovered)
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        print(f"demo: removed {directory}, the logs and checkpoints of both runs", flush=True)
    for what in failed:
        print(f"demo: not true: {what}", file=sys.stderr)
    if not failed:
        say("a worker was killed, and the result is the same, bit for bit")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
