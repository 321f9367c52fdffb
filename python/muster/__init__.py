"""Reports a training's steps and checkpoints to Muster's launcher, and passes the launcher's notices to the training.

    start = muster.resume_step() or 0
    if start:
        load(start)
    for step in range(start + 1, steps + 1):
        train_one_step()
        muster.step(step)
        leave = any_rank(muster.preemption_noticed())
        if leave or step % 100 == 0:
            save(step)
            muster.committed(step)
        if leave:
            raise muster.Preempted

Without a launcher every function does nothing. No function blocks a training, or fails because the agent is gone. Calls
are safe from any thread. The first process that calls a function speaks for its rank; processes that it forks or starts
report nothing. For frameworks: muster.lightning, muster.transformers, muster.accelerate, muster.dcp, muster.torch.
"""

import contextlib
import math

from muster import _metrics, _rank
from muster._metrics import step_number as _step_number

__all__ = ["Preempted", "committed", "idle", "preemption_noticed", "report", "resume_step", "resumed", "section", "step", "waiting"]


def step(n=None, busy_ms=None, group="", loss=None, samples=None):
    """Reports that n steps are done; without `n`, one more. After the first call the launcher misses steps that do not come.

    busy_ms: the time of this rank's own work in the step, without waiting for other ranks. Not needed with `waiting`.
    group: a word that is the same on all ranks of this training's process group, if several trainings run side by side.
    The launcher then compares only these ranks when one hangs or is slow. Without a group it compares all ranks.
    loss, samples: numbers of this step for `launch top`; samples on this rank alone.
    """
    if n is not None:
        n = _step_number(n)
    if busy_ms is not None:
        busy_ms = _metrics.number_of("busy_ms", busy_ms)
        if not math.isfinite(busy_ms):
            raise ValueError(f"muster: busy_ms is {busy_ms}: expected milliseconds")
    if not isinstance(group, (str, type(None))):
        raise TypeError(f"muster: {group!r} is not a group: expected a word that is the same on all its ranks")
    numbers = _told_numbers(loss, samples)
    rank = _rank.mine()
    if rank:
        rank.step(n, busy_ms, group or "", numbers)


def _told_numbers(loss, samples):
    told = {}
    if loss is not None:
        loss = _metrics.number_of("loss", loss)
        told["loss"] = loss if math.isfinite(loss) else None
    if samples is not None:
        told["samples"] = int(_metrics.number_of("samples", samples))
    return told


def report(name, value=None, step=None):
    """Reports a metric's value at a step to whoever compares trainings, such as a sweep of hyperparameters.

    Without a step: one more than the last one of that name, beginning with 1. Several values at once:
    report({"val_loss": 0.25, "accuracy": 0.9}, step=3). A value is anything that float() takes, such as a tensor of one
    number; it may be NaN or infinite. Every report reaches the launcher, in order.
    """
    if not isinstance(name, dict):
        return _metrics.report({name: value}, step)
    if value is not None:
        raise TypeError("muster: a dict has its own values: expected report({...}, step=N)")
    _metrics.report(name, step)


def committed(n, all=False):
    """Reports that this rank has saved its part of the checkpoint of step n. The checkpoint counts when every rank has
    reported. With all=True rank 0 reports for all ranks."""
    n = _step_number(n)
    rank = _rank.mine()
    if rank:
        rank.committed(n, bool(all))


def resume_step():
    """Returns the newest step whose checkpoint counted when this attempt began; None if the launcher knows of none."""
    rank = _rank.mine()
    return rank.resume_step() if rank else None


def resumed(n):
    """Reports that this attempt resumed from step n; call it if that differs from resume_step()."""
    n = _step_number(n)
    rank = _rank.mine()
    if rank:
        rank.resumed(n)


def preemption_noticed():
    """Returns whether this machine goes away soon, so that the rank should save and leave.

    The launcher gives notice only if every rank has called this function before. Ranks see the notice at different
    steps and must agree on one; muster.torch.Leave does that.
    """
    rank = _rank.mine()
    return rank.preemption_noticed() if rank else False


def idle():
    """Reports that no more steps follow for now, so the launcher does not miss the next one."""
    rank = _rank.mine()
    if rank:
        rank.idle()


class Preempted(SystemExit):
    """Raise this after committing a checkpoint on notice: it ends the process with exit code 75."""

    def __init__(self):
        super().__init__(75)


class section(contextlib.ContextDecorator):
    """Marks long work between two steps: `with muster.section("eval"):`, or `@muster.section("eval")` on a function. Its
    time is not the step's. A section that exceeds the limit learned for its name is a hang."""

    def __init__(self, name):
        if not isinstance(name, str):
            raise TypeError(f"muster: {name!r} is not a section's name: expected a string")
        self._name = name
        self._open = []

    def _recreate_cm(self):
        return type(self)(self._name)

    def __enter__(self):
        rank = _rank.mine()
        self._open.append((rank, rank.enter(self._name) if rank else None))
        return self

    def __exit__(self, *_):
        rank, entry = self._open.pop()
        if rank:
            rank.leave(entry)


class waiting(section):
    """Marks code that waits for other ranks, such as a barrier or an all-reduce. The rest of a step is this rank's own
    work; the launcher compares it to find stragglers."""

    def __init__(self):
        super().__init__("")

    def _recreate_cm(self):
        return type(self)()
