"""The values of metrics: from a program that reports them, and of a sweep's trial also those that a framework logs."""

import math
import operator
import os
import re

from muster import _rank

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_/.-]{0,127}")
_MOST = 2**63 - 1  # what the launcher's numbers hold


def step_number(number):
    try:
        step = None if isinstance(number, bool) else operator.index(number)
    except TypeError:
        step = None
    if step is None:
        raise TypeError(f"muster: {number!r} is not a step: expected an integer")
    if not 0 <= step <= _MOST:
        raise ValueError(f"muster: {step} is not a step: expected 0 or more, at most {_MOST}")
    return step


def number_of(name, value):
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise TypeError(f"muster: {name} is {value!r}: expected a number") from error


def report(values, step):
    """values: a dict. step: None for one more than the last one of these names."""
    if not values:
        raise ValueError("muster: report({}) has no value: expected at least one, such as report({\"loss\": 0.25})")
    told = {}
    for name, value in values.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"muster: {name!r} is not a metric's name: expected a letter or _, then letters, digits and _ / . -, at most 128 in all")
        told[name] = number_of(name, value)
    if step is not None:
        step = step_number(step)
    rank = _rank.mine()
    if rank:
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
    if told:
        report(told, step)
