#!/usr/bin/env python3
"""Optuna reads the sweep that Muster exports, and Muster reads what Optuna has written. Optuna searches, and Muster runs the trials.

    optuna_test.py SWEEP_IO_TEST LAUNCH     the program of tests/unit/launcher/sweep_optuna_test.cc, and launch
    optuna_test.py --golden                 writes tests/golden/optuna_5_0/by_optuna.log and .json anew
"""

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

GOLDEN = Path(__file__).parent.parent / "golden" / "optuna_5_0"
EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "optuna_searcher"


def check(condition, what):
    if not condition:
        sys.exit(f"optuna_test.py: {what}")


def storage_in(path):
    return JournalStorage(JournalFileBackend(str(path)))


def plain(number):
    return number if number is None or math.isfinite(number) else str(number)


def as_json(study):
    """The trials as Optuna sees them, for Muster's test."""
    return {
        "name": study.study_name,
        "metrics": study.metric_names,
        "modes": [direction.name for direction in study.directions],
        "trials": [
            {
                "state": trial.state.name,
                "params": trial.params,
                "values": trial.values and [plain(value) for value in trial.values],
                "intermediate": {str(step): plain(value) for step, value in trial.intermediate_values.items()},
            }
            for trial in study.get_trials(deepcopy=False)
        ],
    }


def objective(trial):
    lr = trial.suggest_float("lr", 1e-5, 1e-1, log=True)
    momentum = trial.suggest_float("momentum", 0.0, 0.9 if trial.number < 5 else 0.99)
    dropout = trial.suggest_float("dropout", 0.0, 0.5, step=0.1)
    layers = trial.suggest_int("layers", 1, 4)
    units = trial.suggest_int("units", 32, 256, step=32)
    width = trial.suggest_int("width", 16, 1024, log=True)
    optimizer = trial.suggest_categorical("optimizer", ["sgd", "adam", None, 3, True, 0.5])
    nesterov = optimizer == "adam" and trial.suggest_categorical("nesterov", [True, False])
    for step in range(1, 4):
        value = (math.log10(lr) + 3) ** 2 + momentum + dropout + layers / step + units / width + nesterov
        trial.report(math.nan if trial.number == 4 and step == 2 else value, step)
        if trial.number % 4 == 3 and step == 2:
            raise optuna.TrialPruned()
    if trial.number == 6:
        raise ValueError("a failure")
    return value


def write_study(path):
    """All kinds of distributions, states, numbers and attributes, next to a study that is deleted."""
    storage = storage_in(path)
    optuna.create_study(storage=storage, study_name="deleted")
    optuna.create_study(storage=storage, study_name="other", directions=["maximize", "minimize"])
    study = optuna.create_study(storage=storage, study_name="Lernrate \u03b7", sampler=optuna.samplers.RandomSampler(seed=1))
    study.set_metric_names(["val_loss"])
    study.set_user_attr("by", {"who": ["NaN", 'a "quoted" Infinity \\'], "what": math.nan})
    study.optimize(objective, n_trials=9, catch=(ValueError,))
    optuna.delete_study(study_name="deleted", storage=storage)
    study.add_trial(optuna.create_trial(
        params={"lr": 0.001}, distributions={"lr": optuna.distributions.FloatDistribution(1e-5, 1e-1, log=True)},
        value=math.inf, intermediate_values={7: -math.inf}))
    study.enqueue_trial({"lr": 0.01})
    study.ask()  # takes the waiting trial, and leaves it running
    study.enqueue_trial({"lr": 0.02})
    return study


def write_golden():
    path = GOLDEN / "by_optuna.log"
    path.unlink(missing_ok=True)
    study = write_study(path)
    (GOLDEN / "by_optuna.json").write_text(json.dumps(as_json(study), indent=1, allow_nan=False) + "\n")


def check_exported(path):
    """The sweep of OptunaExport.WritesTheGoldenFile."""
    study = optuna.load_study(study_name="sweep 1", storage=storage_in(path))
    check(study.metric_names == ["val_loss"] and study.direction.name == "MINIMIZE", f"{study.metric_names} {study.direction}")
    trials = study.get_trials()
    states = [trial.state.name for trial in trials]
    check(states == ["COMPLETE", "PRUNED", "FAIL", "PRUNED", "RUNNING", "WAITING", "FAIL"], f"states {states}")
    first = trials[0]
    expected = {"lr": 0.0123, "dropout": 0.25, "units": 64, "width": 100, "act": "relu", "bias": True, "noise": -0.5, "seed": 7}
    check(first.params == expected, f"parameters {first.params}")
    check([type(value) for value in first.params.values()] == [type(expected[name]) for name in first.params], "types of the parameters")
    check(first.value == 0.25 and first.intermediate_values == {1: 0.5, 2: 0.25}, f"values {first.value} {first.intermediate_values}")
    check(first.duration.total_seconds() == 65.5, f"duration {first.duration}")
    check(first.user_attrs == {"accuracy": 0.75}, f"attributes {first.user_attrs}")
    check(math.isnan(trials[1].intermediate_values[1]) and trials[1].value == math.inf, f"not finite: {trials[1]}")
    check(trials[1].user_attrs["muster:why"] == 'worse than 2 of "3"', f"{trials[1].user_attrs}")
    check(trials[2].user_attrs["muster:state"] == "infeasible", f"{trials[2].user_attrs}")
    check(study.best_trial.number == 0, "best trial")
    return study


def suggest(trial):
    trial.suggest_float("lr", 1e-5, 1e-1, log=True)
    trial.suggest_float("dropout", 0.0, 0.75, step=0.25)
    trial.suggest_int("units", 32, 128)
    trial.suggest_int("width", 16, 1024, log=True)
    trial.suggest_categorical("act", ["relu", "gelu"])
    return trial.params["lr"]


def check_imported(program, log, expected, directory):
    expected_file = directory / "expected.json"
    expected_file.write_text(json.dumps(expected, allow_nan=False))
    environment = os.environ | {"OPTUNA_LOG": str(log), "OPTUNA_JSON": str(expected_file)}
    run = subprocess.run([program, "--gtest_filter=OptunaImport.HasTheTrialsThatOptunaHas"], env=environment, capture_output=True,
                         text=True, check=False)
    check(run.returncode == 0 and "[  PASSED  ] 1 test" in run.stdout, f"{log}: {run.stdout}{run.stderr}")


KILLED_ONCE = """import os, subprocess, sys
train = [sys.executable, {train!r}, *sys.argv[1:]]
if os.environ["MUSTER_ATTEMPT"] == "1":
    subprocess.run([*train, "--epochs", "3"], check=True)
    os.kill(os.getpid(), 9)
os.execv(train[0], train)
"""


def check_example(launch, directory):
    """The program of each trial is killed after its third epoch, and goes on."""
    script = directory / "killed_once.py"
    script.write_text(KILLED_ONCE.format(train=str(EXAMPLE / "train.py")))
    environment = os.environ | {"PATH": f"{Path(launch).resolve().parent}:{os.environ['PATH']}"}
    command = [sys.executable, EXAMPLE / "search.py", "--trials", "12", "--directory", directory / "search", script]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    check(run.returncode == 0 and "best: trial " in run.stdout, f"{run.stdout}{run.stderr}")
    trials = optuna.load_study(study_name="search", storage=storage_in(directory / "search" / "study.log")).get_trials()
    complete = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    states = [trial.state.name for trial in trials]
    check(complete and states.count("PRUNED") >= 3 and len(complete) + states.count("PRUNED") == 12, f"states {states}")
    for trial in complete:
        check(list(trial.intermediate_values) == list(range(1, 21)), f"epochs {trial.intermediate_values}")
        (report,) = (directory / "search" / f"{trial.number:04}").glob("*/report.json")
        check(json.loads(report.read_text())["restarts"] == 1, f"{report}: not restarted once")


def main():
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")  # metric names are experimental; choices may be null
    if sys.argv[1:] == ["--golden"]:
        return write_golden()
    warnings.filterwarnings("error", message=".*not divisible.*")
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        log = Path(shutil.copy(GOLDEN / "exported.log", directory))
        study = check_exported(log)
        study.sampler = optuna.samplers.TPESampler(seed=1, n_startup_trials=1)
        study.optimize(suggest, n_trials=4)  # the waiting trial, and three new ones
        check([trial.state for trial in study.get_trials()[5:6]] == [TrialState.COMPLETE], "the waiting trial did not run")
        check(len(study.get_trials()) == 10, f"{len(study.get_trials())} trials")
        expected = as_json(study)
        check_imported(sys.argv[1], log, expected, directory)
        study = write_study(directory / "study.log")
        check_imported(sys.argv[1], directory / "study.log", as_json(study), directory)
        check_example(sys.argv[2], directory)
    print("Optuna and Muster read each other's trials, and work together")


if __name__ == "__main__":
    main()
