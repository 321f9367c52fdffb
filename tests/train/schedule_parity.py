"""Computes the learning rates and momenta of schedule_parity_test.cc with torch: schedule_parity.py FOLDER STEPS.

Writes to FOLDER/NAME, for each step, learning rate and momentum of each of two groups, as doubles."""

import math
import sys
import warnings

import numpy
import torch
from torch.optim import lr_scheduler as s


def metric(step):
    return 1.0 / (1 + step // 3) + 0.25 * ((step * 7) % 5)


CASES = {
    "LambdaLR": lambda o: s.LambdaLR(o, [lambda n: 0.95**n, lambda n: 1 / (1 + n)]),
    "StepLR": lambda o: s.StepLR(o, 30, 0.7),
    "MultiStepLR": lambda o: s.MultiStepLR(o, [10, 80, 80, 500], 0.3),
    "ConstantLR": lambda o: s.ConstantLR(o, 0.3, 17),
    "LinearLR": lambda o: s.LinearLR(o, 0.1, 0.9, 333),
    "ExponentialLR": lambda o: s.ExponentialLR(o, 0.993),
    "PolynomialLR": lambda o: s.PolynomialLR(o, 700, 1.7),
    "CosineAnnealingLR": lambda o: s.CosineAnnealingLR(o, 130, 0.003),
    "CosineAnnealingWarmRestarts": lambda o: s.CosineAnnealingWarmRestarts(o, 13, 2, 0.0007),
    "OneCycleLR": lambda o: s.OneCycleLR(o, [0.3, 0.7], total_steps=1001),
    "OneCycleLRLinear": lambda o: s.OneCycleLR(
        o, 0.4, epochs=20, steps_per_epoch=51, pct_start=0.23, anneal_strategy="linear", div_factor=11, final_div_factor=300,
        base_momentum=0.8, max_momentum=[0.9, 0.99], three_phase=True),
    "ReduceLROnPlateau": lambda o: s.ReduceLROnPlateau(o, factor=0.6, patience=7, cooldown=3, min_lr=[1e-5, 1e-3]),
    "ReduceLROnPlateauMax": lambda o: s.ReduceLROnPlateau(
        o, mode="max", factor=0.9, patience=2, threshold=0.01, threshold_mode="abs", eps=1e-4),
    "ChainedScheduler": lambda o: s.ChainedScheduler(
        [s.ConstantLR(o, 0.1, 20), s.ExponentialLR(o, 0.99), s.CosineAnnealingLR(o, 400)]),
    "SequentialLR": lambda o: s.SequentialLR(
        o, [s.LinearLR(o, 0.01, 1.0, 50), s.CosineAnnealingLR(o, 350, 1e-4), s.StepLR(o, 9, 0.9), s.PolynomialLR(o, 90, 2.5),
            s.MultiStepLR(o, [0, 5, 12], 0.4), s.ConstantLR(o, 0.5, 8), s.ExponentialLR(o, 0.97),
            s.CosineAnnealingWarmRestarts(o, 10, 1), s.LambdaLR(o, lambda n: 1 / math.sqrt(1 + n))],
        [50, 420, 500, 580, 620, 640, 700, 900]),
    "ChainOfSequence": lambda o: s.ChainedScheduler(
        [s.SequentialLR(o, [s.ExponentialLR(o, 0.98), s.LinearLR(o, 0.2, 0.7, 400)], [100]), s.StepLR(o, 77, 0.8)]),
}


def run(make, steps):
    parameters = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
    optimizer = torch.optim.SGD([{"params": [parameters[0]]}, {"params": [parameters[1]], "lr": 0.02}], lr=0.1, momentum=0.9)
    scheduler = make(optimizer)
    values = []
    for step in range(steps):
        values += [group[key] for group in optimizer.param_groups for key in ("lr", "momentum")]
        scheduler.step(*([metric(step)] if isinstance(scheduler, s.ReduceLROnPlateau) else []))
    return values


def main():
    warnings.simplefilter("ignore")  # the optimizer makes no steps, which torch warns about
    folder, steps = sys.argv[1], int(sys.argv[2])
    for name, make in CASES.items():
        numpy.array(run(make, steps), dtype=numpy.float64).tofile(f"{folder}/{name}")


if __name__ == "__main__":
    main()
