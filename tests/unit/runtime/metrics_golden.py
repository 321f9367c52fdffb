#!/usr/bin/env python3
"""Prints torchmetrics' results for the examples of metrics_test.cc.

    metrics_golden.py > metrics_golden.txt
    metrics_golden.py --check    exits with 1 if metrics_golden.txt differs from this torchmetrics' results; with 77 without torchmetrics

One line for each metric: name, values. Examples are integers divided by a prime, so that C++ has the same ones.
"""

import sys

import golden

try:
    import torch
    import torchmetrics.functional as f
    import torchmetrics.functional.classification as c
    from torchmetrics.aggregation import RunningMean
except ImportError as missing:
    print(f"skipped: {missing}; `./dev test python` installs it with Lightning")
    sys.exit(77)

EXAMPLES, CLASSES = 203, 6


def scores_of(examples, classes):
    i, k = torch.arange(examples)[:, None], torch.arange(classes)[None, :]
    scores = ((i * 37 + k * 101 + i * k * 13) % 97 + 1).double() / 98
    scores[:, classes - 1] = 0  # never predicted
    return scores


def lines():
    i = torch.arange(EXAMPLES)
    scores, target = scores_of(EXAMPLES, CLASSES), (i * i + 3 * i) % 11 % 4  # nothing is of class 4 or 5
    yield "confusion", c.multiclass_confusion_matrix(scores, target, CLASSES)
    for name in ("precision", "recall", "f1_score"):
        for average in ("micro", "macro", "weighted", "none"):
            yield f"{name}.{average}", getattr(c, f"multiclass_{name}")(scores, target, CLASSES, average=average)
        yield f"{name}.binary", getattr(c, f"binary_{name}")(scores[:, 0], target % 2)
    for average in ("macro", "weighted", "none"):
        yield f"auroc.{average}", c.multiclass_auroc(scores, target, CLASSES, average=average)
    yield "auroc.binary", c.binary_auroc(scores[:, 0], target % 2)
    for k in (1, 2, 3):
        yield f"top.{k}", c.multiclass_accuracy(scores, target, CLASSES, average="micro", top_k=k)
    yield "mse", f.mean_squared_error(scores[:, 0], scores[:, 1])
    tokens = torch.where(i % 7 == 0, -100, i % 5)
    yield "perplexity", f.text.perplexity((scores * 9).view(1, EXAMPLES, CLASSES), tokens.view(1, EXAMPLES), ignore_index=-100)
    running = RunningMean(window=5)
    for step in range(20):
        running.update(scores[step, : 1 + step % 3])
        if step % 6 == 2:
            yield f"running.{step}", running.compute()
    yield "quantile", torch.quantile(scores[:, 0], torch.tensor([0, 0.01, 0.25, 0.5, 0.9, 0.999, 1], dtype=torch.float64))


def close(held, given):
    held, given = held.split(), given.split()
    return held[0] == given[0] and len(held) == len(given) and all(
        abs(float(a) - float(b)) <= 1e-6 for a, b in zip(held[1:], given[1:]))


given = [" ".join([name, *(f"{value:.9g}" for value in values.double().flatten().tolist())]) for name, values in lines()]
sys.exit(golden.main(__file__, "torchmetrics", given, close))
