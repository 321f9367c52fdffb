"""usage: kills_test.py LAUNCH TRAIN [--runs N] [--kills N] [--seed S] [--steps N] [--without-memory]

Trains on two nodes that hold checkpoints in memory, kills ranks and agents, and compares the results bit for bit.

It kills ranks, agents, and ranks that are writing a checkpoint; each job must end as the undisturbed one. At the end it prints the number of
kills and of repeated steps. By default it makes one job with one kill of each kind. The data is Fashion-MNIST.
"""

import argparse
import glob
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

KINDS = ("a rank", "an agent", "a rank in a save")
LIMIT = 600  # seconds, for each job
MORE_JOBS = 3


class Job:
    WORLD_SIZE = 2
    LONGEST_DELAY = 0  # seconds, after a step was reported

    def __init__(self, arguments, directory):
        self.directory = directory
        self.checkpoints = os.path.join(directory, "checkpoints")
        self.launch = arguments.launch
        hidden = ("MUSTER_", "PET_", "SLURM_")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        self.environment.update(XDG_STATE_HOME=directory, OMP_NUM_THREADS="1")
        command = [arguments.launch, "--device", "cpu", "--checkpoint-dir", self.checkpoints, "--max-restarts", "1000"]
        command += self.words(arguments)
        self.out, self.err = (open(os.path.join(directory, name), "w+") for name in ("out", "err"))
        self.process = subprocess.Popen(command, env=self.environment, stdout=self.out, stderr=self.err)
        self.end = time.monotonic() + LIMIT

    def words(self, arguments):
        """The rest of launch's flags, the program and its flags."""
        words = ["--nodes", "2", "--gpus-per-node", "1"] + ([] if arguments.without_memory else ["--memory-tier", "64M"])
        words += [arguments.train, "--batch-size", "16", "--num-workers", "1", "--max-steps", str(arguments.steps), "--checkpoint-every", "20"]
        return words + ([] if arguments.without_memory else ["--memory-every", "3"])

    def runs(self):
        return self.process.poll() is None and time.monotonic() < self.end

    def ranks(self):
        """Returns the attempt, its ranks' status and their lowest step; zeros until all ranks have made a step."""
        said = subprocess.run([self.launch, "status", "--json"], env=self.environment, capture_output=True, text=True, check=False).stdout
        status = json.loads(said) if said.startswith("{") else {}
        ranks = status.get("ranks", [])
        steps = [rank["step"] for rank in ranks]
        return (status["attempt"], ranks, min(steps)) if len(ranks) == self.WORLD_SIZE and None not in steps else (0, [], 0)

    def is_saving(self):
        steps = glob.glob(f"{self.checkpoints}/step-*.attempt-*")
        return any(not os.path.exists(step + "/manifest.json") for step in steps)

    def kill(self, kind, after_attempt, after_steps, random_source):
        """Kills in a newer attempt, `after_steps` steps after its first; returns the attempt, or 0 if the job ended before."""
        first = None
        while self.runs():
            time.sleep(0.05)  # a query costs as much processor time as some steps
            attempt, ranks, step = self.ranks()
            if attempt <= after_attempt:
                continue
            first = step if first is None else first
            if step < first + after_steps:
                continue
            while kind == KINDS[2] and self.runs() and not self.is_saving():
                pass
            if not self.runs():
                break
            pid = random_source.choice(ranks)["pid"]
            time.sleep(random_source.uniform(0, self.LONGEST_DELAY))
            try:
                if kind == KINDS[1]:
                    with open(f"/proc/{pid}/status", encoding="ascii") as file:
                        pid = int(re.search(r"PPid:\s+(\d+)", file.read()).group(1))
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
            return attempt
        return 0

    def ended(self):
        """Waits for the end; returns the parameters' digests, the repeated steps, and the attempts that resumed from memory."""
        try:
            code = self.process.wait(max(1, self.end - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.terminate()
            code = self.process.wait()
        self.out.seek(0)
        self.err.seek(0)
        digest, said = sorted(re.findall(r"[^:]*: parameters xxh3 [0-9a-f]{32}", self.out.read())), self.err.read()
        assert code == 0 and digest, f"it ended with {code}: {said}"
        with open(glob.glob(f"{self.directory}/muster/*/report.json")[0], encoding="utf-8") as file:
            attempts = json.load(file)["attempts"]
        return digest, sum(attempt.get("repeated_steps") or 0 for attempt in attempts), said.count("which was held in memory")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[2])
    parser.add_argument("launch")
    parser.add_argument("train")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--kills", type=int, default=3, help="in each job")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--without-memory", action="store_true")
    arguments = parser.parse_args()
    print("seed", arguments.seed, flush=True)
    random_source = random.Random(arguments.seed)
    kills, repeated, from_memory = dict.fromkeys(KINDS, 0), 0, 0
    with tempfile.TemporaryDirectory(prefix="muster-test-") as scratch:
        os.mkdir(scratch + "/undisturbed")
        expected = Job(arguments, scratch + "/undisturbed").ended()[0]
        for number in itertools.count():
            # On a busy machine a job may end before all of its kills: another job then makes the rest.
            if number >= arguments.runs and (all(kills.values()) or number == arguments.runs + MORE_JOBS):
                break
            directory = f"{scratch}/{number}"
            os.mkdir(directory)
            job = Job(arguments, directory)
            order = [KINDS[i % len(KINDS)] for i in range(arguments.kills)]
            random_source.shuffle(order)
            attempt = 0
            for kind in order:
                attempt = job.kill(kind, attempt, random_source.randint(3, max(4, arguments.steps // (4 * arguments.kills))), random_source)
                if not attempt:
                    break
                kills[kind] += 1
            digest, twice, held = job.ended()
            assert digest == expected, f"job {number} ended with {digest}, the undisturbed one with {expected}"
            repeated, from_memory = repeated + twice, from_memory + held
            print(f"job {number}: {twice} steps repeated, {held} attempts resumed from memory", flush=True)
    assert all(kills.values()), f"killed {kills}"
    print(f"killed {kills}: all as undisturbed; {repeated} steps repeated, {from_memory} attempts resumed from memory")


if __name__ == "__main__":
    sys.exit(main())
