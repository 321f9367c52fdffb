"""usage: sweep_chaos_test.py LAUNCH SWEEP_CHECKER [--sweeps N] [--seed S] [--keep]

Runs sweeps, and kills their workers, agents and controllers at random times.

A seed picks search, scheduler, how many trials run at once, and what is killed when. The controller is killed, or stopped by a signal, and
`launch sweep resume` goes on. After each sweep: SWEEP_CHECKER explains every event of its journal; all its trials are there; no process is
left. With one trial at a time and only the controller killed, the trials have the points and values of an undisturbed sweep. Sweep I of seed S is
sweep 0 of seed S + I. As a test it runs three sweeps (15 s); by hand, before a release:

    tests/chaos/sweep_chaos_test.py build/release/bin/launch build/release/tests/sweep_checker --sweeps 50
"""

import argparse
import collections
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

LIMIT = 120  # seconds, for each sweep
STEPS = 9
TRIALS = 12  # more than those after which TPE and BOHB have a model; a grid has as many points
WORKER, AGENT, CONTROLLER = "workers", "agents", "controllers"
BOTH = "controllers with their agents"
SIGNAL = "controllers by a signal"
SPACES = {"grid": "x=int:1:4,y=choice:1:2:3"}
SPACE = "x=int:1:1000,y=choice:1:2:3,z=uniform:0:1"
LOOKS = {"median": 3, "pbt": 3}  # steps between two looks of the scheduler

# Reports the loss of each step, then saves the step. It waits where the scheduler may pause or stop it: then it never goes a step too far.
TRIAL = f"""
cd "${{MUSTER_CHECKPOINT_DIR:-$MUSTER_TRIAL_DIR}}" || exit 9
step=$(cat step 2>/dev/null || echo 0)
while [ $step -lt {STEPS} ]; do
  step=$((step + 1))
  loss=$(($1 * $2 + 1000 / step))
  [ $(($1 % 11)) = 0 ] && loss=nan
  echo "MUSTER_METRIC loss=$loss accuracy=$step step=$step"
  echo $step > step.new && mv step.new step
  case $step in 1|3|6) sleep $4 ;; *) sleep $3 ;; esac
done
"""


class Sweep:
    def __init__(self, arguments, seed):
        self.seed, self.random = seed, random.Random(seed)
        self.launch, self.checker = os.path.abspath(arguments.launch), os.path.abspath(arguments.checker)
        pick = self.random.choice
        self.search = pick(["grid", "random", "sobol", "tpe", "bohb"])
        self.scheduler = "hyperband" if self.search == "bohb" else pick(["none", "asha", "asha-stop", "hyperband", "median", "pbt"])
        self.parallel = pick([1, 1, 1, 2, 3, 4])
        self.kinds = pick([[CONTROLLER, SIGNAL]] * 2 + [[WORKER, AGENT], [WORKER, AGENT, CONTROLLER, BOTH, SIGNAL]])
        self.place = pick(["MUSTER_CHECKPOINT_DIR", "MUSTER_TRIAL_DIR"])
        # PBT's trials go on from what others have saved, which may be a step further.
        self.comparable = self.parallel == 1 and WORKER not in self.kinds and self.scheduler != "pbt"
        self.kills = collections.Counter()

    def __str__(self):
        return f"seed {self.seed}: {self.search}, {self.scheduler}, {self.parallel} at once, kills {', '.join(self.kinds)}"

    def words(self, directory):
        program = TRIAL if self.place == "MUSTER_CHECKPOINT_DIR" else TRIAL.replace("MUSTER_CHECKPOINT_DIR", "NOTHING")
        pauses = ("0.05", "0.05" if self.scheduler == "none" else "0.15") if self.parallel == 1 else (f"0.0{2 * self.parallel}",) * 2
        return ["sweep", "run", "--sweep-dir", directory, "--space", SPACES.get(self.search, SPACE), "--metric", "loss", "--search", self.search,
                "--scheduler", self.scheduler, "--max-steps", str(STEPS), "--grace-steps", str(LOOKS.get(self.scheduler, 1)), "--trials", str(TRIALS),
                "--parallel", str(self.parallel), "--seed", str(self.seed % 1000), "--trial-retries", "50", "--device", "cpu",
                "--", "sh", "-c", program, "trial", "{x}", "{y}", *pauses]

    def start(self, words, scratch):
        hidden = ("MUSTER_", "PET_", "SLURM_")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        environment.update(XDG_STATE_HOME=scratch, SWEEP_CHAOS=scratch)
        with open(os.path.join(scratch, "said"), "ab") as said:
            said.write(f"$ launch {' '.join(words[:3])}\n".encode())
            said.flush()
            return subprocess.Popen([self.launch, *words], env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said)

    def run(self, scratch):
        """Runs the sweep and disturbs it; returns its trials and a summary."""
        directory = os.path.join(scratch, "sweep")
        end = time.monotonic() + LIMIT
        left = self.random.randint(3, 10)
        controller = self.start(self.words(directory), scratch)
        at = time.monotonic() + self.random.uniform(0, 0.6)
        while True:
            assert time.monotonic() < end, f"it has not ended after {LIMIT} s"
            code = controller.poll()
            if code is not None and code not in (-signal.SIGKILL, 128 + signal.SIGINT, 128 + signal.SIGTERM):
                break
            if code is not None:
                begun = os.path.exists(os.path.join(directory, "sweep.db"))
                controller = self.start(["sweep", "resume", directory] if begun else self.words(directory), scratch)
            elif left > 0 and time.monotonic() >= at:
                left -= self.kill(controller, scratch)
                at = time.monotonic() + self.random.uniform(0, 0.6)
            else:
                time.sleep(0.005)
        assert code == 0, f"exit code {code}"
        return self.examined(directory, scratch)

    def kill(self, controller, scratch):
        """Kills something; returns whether there was something to kill."""
        kind = self.random.choice(self.kinds)
        present = marked(scratch)
        agents, workers = ([pid for pid, name in present if name == program] for program in ("muster-agent", "sh"))
        if kind == WORKER:
            pids = [self.random.choice(workers)] if workers else []
        elif kind == AGENT:
            pids = [self.random.choice(agents)] if agents else []
        else:
            pids = [controller.pid] + ([pid for pid in agents if self.random.random() < 0.7] if kind == BOTH else [])
        number = self.random.choice([signal.SIGINT, signal.SIGTERM]) if kind == SIGNAL else signal.SIGKILL
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        self.kills[kind] += 1 if pids else 0
        if kind in (CONTROLLER, BOTH):
            controller.wait(LIMIT)
        return bool(pids)

    def examined(self, directory, scratch):
        present = marked(scratch)
        assert not present, f"processes are left: {present}"
        checked = subprocess.run([self.checker, directory], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, f"sweep_checker {directory}:\n{checked.stdout}{checked.stderr}"
        count = len(json.loads(self.answer("status", directory))["trials"])
        assert count == TRIALS, f"{count} trials"
        return [json.loads(self.answer("show", str(number), directory)) for number in range(count)], checked.stdout.strip()

    def answer(self, *words):
        return subprocess.run([self.launch, "sweep", *words, "--json"], stdout=subprocess.PIPE, check=True).stdout


def marked(scratch):
    """The processes that have the sweep's mark in their environment, with their names."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if f"SWEEP_CHAOS={scratch}".encode() not in file.read().split(b"\0"):
                    continue
            with open(f"/proc/{entry}/comm", encoding="ascii") as file:
                found.append((int(entry), file.read().strip()))
        except (OSError, ValueError):
            continue
    return found


def outcome(trial):
    """What a disturbed sweep has in common with an undisturbed one. A trial that was ended may have gone further in one of them."""
    values = {metric: {each["step"]: each["value"] for each in series} for metric, series in trial["measured"].items()}
    return trial["state"], trial["parameters"], values


def compare(trials, others):
    for trial, other in zip(trials, others):
        (state, point, values), (other_state, other_point, other_values) = outcome(trial), outcome(other)
        assert (state, point) == (other_state, other_point), f"trial {trial['trial']}: {state} {point}; undisturbed: {other_state} {other_point}"
        for metric in values.keys() | other_values.keys():
            mine, theirs = values.get(metric, {}), other_values.get(metric, {})
            steps = mine.keys() | theirs.keys() if state == "finished" else mine.keys() & theirs.keys()
            for step in steps:
                assert mine.get(step) == theirs.get(step), f"trial {trial['trial']}: {metric} at step {step}: {mine.get(step)}; undisturbed: {theirs.get(step)}"


def try_sweep(arguments, seed):
    """Returns whether it was as it must be."""
    sweep = Sweep(arguments, seed)
    scratch = tempfile.mkdtemp(prefix="sweep_chaos.")
    try:
        began = time.monotonic()
        trials, summary = sweep.run(scratch)
        if sweep.comparable:
            other = os.path.join(scratch, "undisturbed")
            os.mkdir(other)
            directory = os.path.join(other, "sweep")
            code = sweep.start(sweep.words(directory), other).wait(LIMIT)
            assert code == 0, f"undisturbed: exit code {code}"
            compare(trials, sweep.examined(directory, other)[0])
            summary += "; as an undisturbed one"
        killed = ", ".join(f"{count} {kind}" for kind, count in sweep.kills.items()) or "nothing"
        print(f"{sweep}: killed {killed}; {summary}; {time.monotonic() - began:.1f} s", flush=True)
    except (AssertionError, subprocess.SubprocessError) as error:
        print(f"{sweep}: WRONG, in {scratch}: {error}", flush=True)
        return None
    finally:
        for pid, _ in marked(scratch):
            os.kill(pid, signal.SIGKILL)
    if not arguments.keep:
        shutil.rmtree(scratch)
    return sweep


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[2])
    parser.add_argument("launch")
    parser.add_argument("checker")
    parser.add_argument("--sweeps", type=int, default=3)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--keep", action="store_true", help="the directories of good sweeps, too")
    arguments = parser.parse_args()
    print("seed", arguments.seed, flush=True)
    sweeps = [try_sweep(arguments, arguments.seed + number) for number in range(arguments.sweeps)]
    kills = sum((sweep.kills for sweep in sweeps if sweep), collections.Counter())
    good, compared = sum(1 for sweep in sweeps if sweep), sum(1 for sweep in sweeps if sweep and sweep.comparable)
    print(f"{good} of {len(sweeps)} sweeps were right, {compared} of them compared; killed: {dict(kills)}")
    return 0 if sweeps and good == len(sweeps) else 1


sys.exit(main())
