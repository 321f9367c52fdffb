#!/usr/bin/env python3
"""Optuna chooses the parameters and prunes trials; Muster runs each trial as a job, several at a time, and restarts it if it fails.

    search.py [--trials 20] [--parallel 2] [--directory optuna] [--gpus] [PROGRAM [ARGUMENT...]]

PROGRAM gets --lr and --momentum, and prints `MUSTER_METRIC loss=0.1 step=3` after each epoch; without it: train.py of this folder. DIRECTORY/study.log keeps
the study: started again, the search goes on. `launch sweep import SWEEP DIRECTORY/study.log` shows it, and so does optuna-dashboard.
"""

import argparse
import os
import queue
import subprocess
from pathlib import Path

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend


def arguments():
    parser = argparse.ArgumentParser(usage="\n".join(__doc__.splitlines()[2:3]).strip())
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--parallel", type=int, default=2, help="how many trials run at once")
    parser.add_argument("--directory", type=Path, default=Path("optuna"))
    parser.add_argument("--gpus", action="store_true", help="give each trial that runs a GPU of its own")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    return parser.parse_args()


options = arguments()
program = options.program or [str(Path(__file__).parent / "train.py")]
places = queue.SimpleQueue()  # one for each trial that may run
for number in range(options.parallel):
    places.put(str(number))


def run(trial, words, environment):
    """Runs the words as a job, and tells Optuna each loss. Returns the last one."""
    directory = options.directory / f"{trial.number:04}"
    command = ["launch", "--max-restarts", "3", "--log-dir", directory, "--checkpoint-dir", directory / "checkpoints", *words]
    loss = None
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | environment) as job:
        for line in job.stdout:
            _, mark, metrics = line.partition("MUSTER_METRIC ")  # the name of the rank precedes it
            if not mark:
                continue
            values = dict(word.split("=") for word in metrics.split())
            loss = float(values["loss"])
            trial.report(loss, int(values["step"]))
            if trial.should_prune():
                job.terminate()
                job.communicate()  # until the job has ended
                raise optuna.TrialPruned
    if job.returncode != 0 or loss is None:
        raise RuntimeError(f"trial {trial.number} ended with {job.returncode}: launch report --log-dir {directory}")
    return loss


def objective(trial):
    words = [*program, "--lr", str(trial.suggest_float("lr", 1e-3, 1, log=True)), "--momentum", str(trial.suggest_float("momentum", 0, 0.99))]
    place = places.get()
    try:
        return run(trial, words, {"CUDA_VISIBLE_DEVICES": place} if options.gpus else {})
    finally:
        places.put(place)


options.directory.mkdir(parents=True, exist_ok=True)
study = optuna.create_study(
    study_name="search",
    storage=JournalStorage(JournalFileBackend(str(options.directory / "study.log"))),
    load_if_exists=True,
    sampler=optuna.samplers.TPESampler(constant_liar=True),
    pruner=optuna.pruners.SuccessiveHalvingPruner(),
)
study.optimize(objective, n_trials=options.trials, n_jobs=options.parallel, catch=RuntimeError)
print(f"best: trial {study.best_trial.number}, loss {study.best_value:.6g}, {study.best_params}")
