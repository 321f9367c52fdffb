#!/usr/bin/env python3
"""The trials of sweep_speed under Optuna or Ray Tune.

  sweep_speed_peers.py optuna|ray TRIALS PARALLEL SECONDS FILE

Writes {"wall_ms": ...} to FILE: the time from before the import of the library to the end of the sweep.
"""

import json
import sys
import time


def with_optuna(trials, parallel, seconds):
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def objective(trial):
        x = trial.suggest_float("x", 0, 1)
        for step in range(1, 5):
            time.sleep(seconds / 4)
            trial.report(x, step)
        return x

    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=trials, n_jobs=parallel)


def with_ray(trials, parallel, seconds):
    import ray
    from ray import tune

    ray.init(num_cpus=parallel, include_dashboard=False, log_to_driver=False)

    def objective(config):
        for _ in range(4):
            time.sleep(seconds / 4)
            tune.report({"loss": config["x"]})

    tuner = tune.Tuner(
        objective,
        param_space={"x": tune.uniform(0, 1)},
        tune_config=tune.TuneConfig(num_samples=trials, max_concurrent_trials=parallel, metric="loss", mode="min"),
        run_config=tune.RunConfig(verbose=0),
    )
    tuner.fit()
    ray.shutdown()


def main():
    peer, trials, parallel, seconds, path = sys.argv[1:]
    begin = time.monotonic()
    {"optuna": with_optuna, "ray": with_ray}[peer](int(trials), int(parallel), float(seconds))
    wall = (time.monotonic() - begin) * 1e3
    with open(path, "w") as file:
        json.dump({"wall_ms": wall}, file)


if __name__ == "__main__":
    main()
