#!/usr/bin/env python3
"""Our searches against Optuna's TPE, on the functions of functions.cc, which this script repeats.

  sweep_quality_compare.py [--program build/release/bin/sweep_quality] [--trials 100] [--seeds 50] [--functions branin ackley5]

Needs a Python with optuna. Prints the medians over the seeds of the best value after N trials, above the function's minimum, and
two-sided p values of Mann and Whitney's test. On Stochastic Counting Ones the best trial is chosen by its noisy value and judged without
noise.
"""

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def branin(x):
    a = x[1] - 5.1 / (4 * math.pi**2) * x[0] ** 2 + 5 / math.pi * x[0] - 6
    return a**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x[0]) + 10


HEIGHTS = (1, 1.2, 3, 3.2)
SCALES = ((10, 3, 17, 3.5, 1.7, 8), (0.05, 10, 17, 0.1, 8, 14), (3, 3.5, 1.7, 10, 17, 8), (17, 8, 0.05, 10, 0.1, 14))
CENTERS = (
    (0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886),
    (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991),
    (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650),
    (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381),
)


def hartmann6(x):
    return -sum(
        height * math.exp(-sum(s * (value - c) ** 2 for value, s, c in zip(x, scales, centers)))
        for height, scales, centers in zip(HEIGHTS, SCALES, CENTERS)
    )


def rosenbrock(x):
    return sum(100 * (b - a**2) ** 2 + (1 - a) ** 2 for a, b in zip(x, x[1:]))


def ackley(x):
    squares = sum(each**2 for each in x) / len(x)
    cosines = sum(math.cos(2 * math.pi * each) for each in x) / len(x)
    return -20 * math.exp(-0.2 * math.sqrt(squares)) - math.exp(cosines) + 20 + math.e


def counted_ones(x, noise):
    draws = 729
    return -sum(x[:8]) - sum(sum(noise.random() < each for _ in range(draws)) / draws for each in x[8:])


# name: minimum, ranges (None: 0 or 1), value without noise, value with noise
FUNCTIONS = {
    "branin": (0.397887, [(-5, 10), (0, 15)], branin, None),
    "hartmann6": (-3.32237, [(0, 1)] * 6, hartmann6, None),
    "rosenbrock10": (0, [(-5, 10)] * 10, rosenbrock, None),
    "ackley5": (0, [(-32.768, 32.768)] * 5, ackley, None),
    "counting_ones": (-16, [None] * 8 + [(0, 1)] * 8, lambda x: -sum(x), counted_ones),
}


def optuna_best(name, trials, seed):
    import optuna

    _, ranges, value, measure = FUNCTIONS[name]
    noise = random.Random(seed)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, multivariate=True))
    best_measured, best = math.inf, None
    for _ in range(trials):
        trial = study.ask()
        x = [
            trial.suggest_float(f"x{i}", *bounds) if bounds else trial.suggest_categorical(f"x{i}", [0, 1])
            for i, bounds in enumerate(ranges)
        ]
        measured = measure(x, noise) if measure else value(x)
        study.tell(trial, measured)
        if measured < best_measured:
            best_measured, best = measured, value(x)
    return best


def mann_whitney(a, b):
    """Two-sided p, by the normal approximation with the correction for ties and for continuity."""
    both = sorted(a + b)
    rank, ties, i = {}, 0, 0
    while i < len(both):
        end = i
        while end < len(both) and both[end] == both[i]:
            end += 1
        rank[both[i]] = (i + 1 + end) / 2
        ties += (end - i) ** 3 - (end - i)
        i = end
    n = len(both)
    u = sum(rank[each] for each in a) - len(a) * (len(a) + 1) / 2
    variance = len(a) * len(b) / 12 * (n + 1 - ties / (n * (n - 1)))
    if variance == 0:
        return 1.0
    z = max(abs(u - len(a) * len(b) / 2) - 0.5, 0) / math.sqrt(variance)
    return math.erfc(z / math.sqrt(2))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(HERE, "sweep_quality"))
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--functions", nargs="+", choices=FUNCTIONS, default=list(FUNCTIONS))
    options = parser.parse_args()
    try:
        import optuna
    except ImportError:
        sys.exit("this Python lacks optuna: pip install optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    count = ["--trials", str(options.trials), "--seeds", str(options.seeds)]
    ours = json.loads(subprocess.run([options.program, "--json", *count], check=True, capture_output=True).stdout)
    print(f"after {options.trials} trials, medians of {options.seeds} seeds above the minimum; optuna {optuna.__version__}")
    for name in options.functions:
        bests = ours[name]
        bests["optuna"] = [optuna_best(name, options.trials, seed) for seed in range(options.seeds)]
        medians = {search: statistics.median(values) - FUNCTIONS[name][0] for search, values in bests.items()}
        print(
            f"{name:<14}",
            "  ".join(f"{search} {value:.4g}" for search, value in medians.items()),
            f"  tpe and random: p {mann_whitney(bests['tpe'], bests['random']):.1e}",
            f"  tpe and optuna: p {mann_whitney(bests['tpe'], bests['optuna']):.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
