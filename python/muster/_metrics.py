"""The values of metrics: from a program that reports them, and of a sweep's trial also those that a framework logs."""

import math
import operator
import os
import re

from muster import _rank

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_/.-]{0,127}")


def step_number(number):
    step = operator.index(number)
    if step < 0:
        raise ValueError(f"muster: {step} is not a step: expected 0 or more")
    return step


def report(values, step):
    """values: a dict. step: None for one more than the last one of these names."""
    told = {}
    for name, value in values.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"muster: {name!r} is not a metric's name: expected a letter or _, then letters, digits and _ / . -, at most 128 in all")
        try:
            told[name] = float(value)
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            raise TypeError(f"muster: {name} is {value!r}: expected a number") from error
    if step is not None:
        step = step_number(step)
    rank = _rank.mine()
    if rank and told:
        rank.report({name: value if math.isfinite(value) else str(value) for name, value in told.items()}, step)


def report_logged(values, step):
    """Reports what a framework logs, if this training is a sweep's trial: the scalars among the values."""
    if "MUSTER_TRIAL" not in os.environ:
        return
    told = {}
    for name, value in values.items():
        if isinstance(value, str) or not isinstance(name, str) or not _NAME.fullmatch(name):
            continue
        try:
            told[name] = float(value)
        except (TypeError, ValueError, OverflowError, RuntimeError):
            continue  # no scalar
    report(told, step)
