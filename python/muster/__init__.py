"""What a training tells Muster's launcher, and hears from it.

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

Where no launcher is, all of it does nothing. Nothing here blocks a training, or fails because the agent is gone; calls
are safe from any thread. A process speaks for its rank if it was the first there to call any of this: what it forks or
starts is silent. For frameworks: muster.lightning, muster.transformers, muster.accelerate, muster.dcp, muster.torch.
"""

import contextlib
import math
import operator

from muster import _rank

__all__ = ["Preempted", "committed", "idle", "preemption_noticed", "resume_step", "resumed", "section", "step", "waiting"]


def _step_number(number):
    step = operator.index(number)
    if step < 0:
        raise ValueError(f"muster: {step} is no step: expected 0 or more")
    return step


def step(n=None, busy_ms=None, group="", loss=None, samples=None):
    """So many steps are done; without `n`, one more. From the first call on the launcher misses steps that do not come.

    busy_ms: how long this rank's own work of the step took, without waiting for other ranks; where `waiting` was used
    it is known.
    group: the same word on all ranks of the process group that trains here, where several trainings go on side by side:
    only they are compared when one hangs or is slow. Without one: all ranks of the job.
    loss, samples: of this step, samples on this rank alone; for `launch top`.
    """
    if n is not None:
        n = _step_number(n)
    if busy_ms is not None:
        busy_ms = float(busy_ms)
        if not math.isfinite(busy_ms):
            raise ValueError(f"muster: busy_ms is {busy_ms}: expected milliseconds")
    if not isinstance(group, (str, type(None))):
        raise TypeError(f"muster: {group!r} is no group: expected a word, the same on all its ranks")
    rank = _rank.mine()
    if rank:
        rank.step(n, busy_ms, group or "", _told_numbers(loss, samples))


def _told_numbers(loss, samples):
    told = {}
    if loss is not None:
        loss = float(loss)
        told["loss"] = loss if math.isfinite(loss) else None
    if samples is not None:
        told["samples"] = int(samples)
    return told


def committed(n, all=False):
    """This rank has saved what belongs to the checkpoint of step n. The checkpoint counts when every rank has said so;
    with all=True rank 0 speaks for all, and the others' word is not needed."""
    n = _step_number(n)
    rank = _rank.mine()
    if rank:
        rank.committed(n, bool(all))


def resume_step():
    """The newest step whose checkpoint counted when this attempt began, as the launcher knows; None: it knows of none."""
    rank = _rank.mine()
    return rank.resume_step() if rank else None


def resumed(n):
    """This attempt goes on from step n, where that is not what resume_step() said."""
    n = _step_number(n)
    rank = _rank.mine()
    if rank:
        rank.resumed(n)


def preemption_noticed():
    """Whether this machine goes away soon, so that the rank should save and leave.

    Who asks can do so in time: only if every rank has asked before does the launcher give notice. Ranks hear of it at
    different steps and must agree on one; muster.torch.Leave does that.
    """
    rank = _rank.mine()
    return rank.preemption_noticed() if rank else False


def idle():
    """No more steps follow for now: the next one is not missed."""
    rank = _rank.mine()
    if rank:
        rank.idle()


class Preempted(SystemExit):
    """A checkpoint is committed, and this rank leaves on notice: raised, it ends the process with exit code 75."""

    def __init__(self):
        super().__init__(75)


class section(contextlib.ContextDecorator):
    """`with muster.section("eval"):`, or `@muster.section("eval")` on a function: something that takes long between two
    steps. Its time is not the step's, and one that does not end within the limit learned for its name is a hang."""

    def __init__(self, name):
        self._name = str(name)
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
    """Around what waits for other ranks, such as a barrier or an all-reduce: without that time a step is this rank's own
    work, by which a straggler is found."""

    def __init__(self):
        super().__init__("")

    def _recreate_cm(self):
        return type(self)()
