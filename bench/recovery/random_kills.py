#!/usr/bin/env python3
"""The cost of kills in a job that reports nothing to its launcher: a Python DDP script with its own snapshots. Random
ranks get SIGKILL again and again.

  random_kills.py [--interval 7,15] [--seeds 5 | --seed 3] [--mode executed,warm] [--json]

The times between kills are exponentially distributed with a mean of INTERVAL seconds. The seed determines these times and the ranks.

Cost of a kill: the extra time over an undisturbed job in the same mode, minus the time of repeated steps and of repeated starts,
divided by the number of kills. A start lasts from the process's beginning to its first step, at most as long as the undisturbed one.
In an attempt killed before its first step it is the attempt's whole life.
"""

import argparse
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MARK = "MUSTER_BENCH_RANDOM_KILLS"
LIMIT = 0.5  # seconds a kill may cost


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def is_ours(pid, mark):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"{MARK}={mark}\0".encode() in file.read()
    except OSError:
        return False


class Job:
    """One launch, in its own directory."""

    def __init__(self, options, mode, directory):
        self.options, self.directory, self.logs = options, directory, os.path.join(directory, "logs")
        self.mark = f"{os.getpid()}.{os.path.basename(directory)}"
        self.kills = []
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("MUSTER_", "PET_"))}
        environment |= {MARK: self.mark, "OMP_NUM_THREADS": "1"}
        self.began = now()
        self.process = subprocess.Popen(
            [options.launch, "--warm" if mode == "warm" else "--no-warm", "--device", "cpu", "--gpus-per-node", str(options.ranks),
             "--max-restarts", "99", "--log-dir", self.logs, "--quiet", options.python, os.path.join(HERE, "snapshot_job.py"),
             directory, str(options.steps), str(options.step_seconds), str(options.snapshot_every)],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(os.path.join(directory, "err"), "w"))

    def wait(self, seconds):
        """Returns whether the launch ended within that time."""
        try:
            self.process.wait(max(0, seconds))
            return True
        except subprocess.TimeoutExpired:
            return False

    def ranks(self):
        status = subprocess.run([self.options.launch, "status", "--log-dir", self.logs, "--json"], capture_output=True, text=True)
        if status.returncode != 0 or '"ranks"' not in status.stdout:
            return []
        pids = [rank["pid"] for rank in json.loads(status.stdout)["ranks"] if rank["state"] == "running"]
        return [pid for pid in pids if pid > 0 and is_ours(pid, self.mark)]

    def kill_ranks(self, interval, draw):
        due = now() + draw.expovariate(1 / interval)
        while not self.wait(due - now()):
            ranks = self.ranks()
            if not ranks:  # between two attempts
                due = now() + 0.02
                continue
            os.kill(draw.choice(ranks), signal.SIGKILL)
            self.kills.append(now())
            due = now() + draw.expovariate(1 / interval)

    def stamps(self):
        """The attempts in which rank 0 started: the start of its process, and its steps with their times."""
        attempts = []
        with open(os.path.join(self.directory, "stamps")) as file:
            for line in file:
                words = line.split()
                if words[0] == "A":
                    attempts.append((float(words[1]), []))
                else:
                    attempts[-1][1].append((int(words[1]), float(words[2])))
        return attempts

    def report(self):
        job, = [name for name in os.listdir(self.logs) if os.path.exists(os.path.join(self.logs, name, "report.json"))]
        with open(os.path.join(self.logs, job, "report.json")) as file:
            return json.load(file)

    def events(self):
        job, = os.listdir(self.logs)
        with open(os.path.join(self.logs, job, "events.jsonl")) as file:
            return [json.loads(line) for line in file]


def measure_undisturbed(options, mode):
    with tempfile.TemporaryDirectory(prefix="random-kills-") as directory:
        job = Job(options, mode, directory)
        job.wait(600)
        end = now()
        (began, steps), = job.stamps()
        return {"seconds": end - job.began, "start": steps[0][1] - began,
                "step": (steps[-1][1] - steps[0][1]) / (len(steps) - 1)}


def measure(options, mode, interval, seed, undisturbed):
    with tempfile.TemporaryDirectory(prefix="random-kills-") as directory:
        job = Job(options, mode, directory)
        job.kill_ranks(interval, random.Random(seed))
        seconds = now() - job.began
        report = job.report()
        attempts = job.stamps()
        started = [event["time"] for event in job.events() if event["event"] == "workers_started"]
        ended = [event["time"] for event in job.events() if event["event"] == "worker_exited" and event["text"].startswith("was killed by SIGKILL")]
    steps = [step for _, done in attempts for step, _ in done]
    first = undisturbed["start"]
    starts = sum(min(first, done[0][1] - began) for began, done in attempts if done)
    # Attempts without a step: rank 0 left no stamp, so their whole life counts.
    for index, began in enumerate(started):
        until = started[index + 1] if index + 1 < len(started) else None
        deaths = [at for at in ended if at >= began and (until is None or at < until)]
        if deaths and deaths[0] - began < first and not stepped(attempts, began, deaths[0]):
            starts += deaths[0] - began
    repeated = len(steps) - len(set(steps))
    lost = seconds - undisturbed["seconds"]
    kills = len(job.kills)
    cost = (lost - repeated * undisturbed["step"] - (starts - first)) / kills if kills else 0.0
    return {"mode": mode, "interval": interval, "seed": seed, "exit_code": job.process.returncode, "gave_up": report.get("gave_up"),
            "kills": kills, "restarts": report["restarts"], "seconds": round(seconds, 2), "lost_seconds": round(lost, 2),
            "repeated_steps": repeated, "start_seconds": round(starts - first, 2), "cost_seconds": round(cost, 3)}


def stepped(attempts, began, died):
    """Returns whether rank 0 made a step between these times (seconds since 1970)."""
    offset = time.time() - now()
    return any(began <= at + offset <= died for _, done in attempts for _, at in done)


def numbers(kind):
    return lambda text: [kind(word) for word in text.split(",")]


def read_options():
    with open(os.path.join(ROOT, "dev"), encoding="utf-8") as script:
        version = re.search(r"^torch_version=(\S+)", script.read(), re.MULTILINE)[1]
    python = os.path.expanduser(f"~/.cache/muster/torch-{version}/bin/python")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interval", type=numbers(float), default=[7, 15], metavar="SECONDS", help="mean time between kills; separate several with commas (7,15)")
    parser.add_argument("--seeds", type=int, default=5, help="the seeds 1 to SEEDS (5)")
    parser.add_argument("--seed", type=int, help="only this seed")
    parser.add_argument("--mode", type=lambda text: text.split(","), default=["executed", "warm"], help="executed, warm, or both, separated by a comma")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--step-seconds", type=float, default=0.1)
    parser.add_argument("--snapshot-every", type=int, default=10, metavar="STEPS")
    parser.add_argument("--launch", default=os.path.join(ROOT, "build/release/bin/launch"))
    parser.add_argument("--python", default=python if os.path.exists(python) else sys.executable)
    parser.add_argument("--json", action="store_true", help="print every run as JSON, and no table")
    options = parser.parse_args()
    if unknown := set(options.mode) - {"executed", "warm"}:
        parser.error(f"--mode {', '.join(unknown)} is unknown: give executed, warm or executed,warm")
    return options


def print_table(mode, interval, runs, undisturbed):
    print(f"\n{mode}, a kill every {interval:g} s on average; undisturbed {undisturbed['seconds']:.1f} s, "
          f"{undisturbed['start']:.2f} s to the first step, {1000 * undisturbed['step']:.0f} ms a step")
    print(f"{'seed':>6}{'exit':>6}{'kills':>7}{'took s':>9}{'lost s':>9}{'repeated':>10}{'starts s':>10}{'cost s/kill':>13}")
    for run in runs:
        print(f"{run['seed']:>6}{run['exit_code']:>6}{run['kills']:>7}{run['seconds']:>9.1f}{run['lost_seconds']:>9.1f}"
              f"{run['repeated_steps']:>10}{run['start_seconds']:>10.1f}{run['cost_seconds']:>13.2f}")
    well = sum(run["exit_code"] == 0 for run in runs)
    costs = [run["cost_seconds"] for run in runs if run["kills"]]
    median = f"; median {statistics.median(costs):.2f} s a kill, most {max(costs):.2f} (limit {LIMIT})" if costs else ""
    print(f"{well} of {len(runs)} end with 0{median}", flush=True)


def main():
    options = read_options()
    results = []
    for mode in options.mode:
        undisturbed = measure_undisturbed(options, mode)
        for interval in options.interval:
            seeds = [options.seed] if options.seed is not None else range(1, options.seeds + 1)
            runs = [measure(options, mode, interval, seed, undisturbed) for seed in seeds]
            results += [run | {"undisturbed": undisturbed} for run in runs]
            if not options.json:
                print_table(mode, interval, runs, undisturbed)
    if options.json:
        print(json.dumps(results, indent=2))
    sys.exit(0 if all(run["exit_code"] == 0 and run["cost_seconds"] <= LIMIT for run in results) else 1)


if __name__ == "__main__":
    main()
