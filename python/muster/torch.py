"""Helpers for trainings with torch.distributed: leaving together, and a rank's own work."""

import os

import torch
import torch.distributed as dist

import muster
from muster import _rank

_STEPS_AHEAD = 2
_instances = 0


class Leave:
    """Makes all ranks leave after the same step when this machine is about to go away.

        leave = muster.torch.Leave()
        for step in ...:
            train_one_step()
            if leave.after(step):
                save(step)
                muster.committed(step)
                raise muster.Preempted

    All ranks create their Leave objects in the same order, and call after() after each step. When a rank sees the notice,
    it posts its current step in the attempt's store. When all have posted, they leave two steps after the highest. Each
    step waits for all ranks, so a rank is at most one step ahead of another, and every rank learns the step in time. No
    rank waits for this, and before the notice a rank sends nothing.
    """

    def __init__(self):
        global _instances
        _instances += 1
        self._keys = f"muster/leave/{_instances}/"
        self._store = self._last = None
        muster.preemption_noticed()  # tells the launcher that this rank can leave on notice

    def after(self, step):
        """Returns whether to save and leave now, after this step."""
        if not muster.preemption_noticed():
            return False
        if self._last is None:
            try:
                self._last = self._agreed(step)
            except (RuntimeError, ValueError, KeyError):  # the store is gone, or never existed
                return False
            if self._last is not None:
                _rank.mine().saving(self._last)
        return self._last is not None and step >= self._last

    def _agreed(self, step):
        if not dist.is_initialized() or dist.get_world_size() == 1:
            return step
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()  # otherwise a rank may be many steps ahead
        if self._store is None:
            self._store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
            self._store.set(self._keys + str(dist.get_rank()), str(step))
        keys = [self._keys + str(rank) for rank in range(dist.get_world_size())]
        if not self._store.check(keys):
            return None
        return max(int(value) for value in self._store.multi_get(keys)) + _STEPS_AHEAD


class OwnWork:
    """Separates a rank's own work from its wait for other ranks, so that the launcher can find stragglers. A backward pass
    waits for all ranks, so it counts as waiting. Only on the CPU: on a GPU the program's time is not the GPU's, so it
    reports nothing."""

    def __init__(self):
        self._waiting = None
        self._hooks = []
        self._tells = dist.is_initialized() and dist.get_world_size() > 1 and not torch.cuda.is_initialized()

    def wait(self):
        """Call when a backward pass begins."""
        if self._tells and not self._waiting:
            self._waiting = muster.waiting()
            self._waiting.__enter__()

    def go_on(self):
        """Call when the backward pass has ended."""
        if self._waiting:
            waiting, self._waiting = self._waiting, None
            waiting.__exit__()

    def watch(self, module):
        """Counts the time from the module's forward pass to go_on(), or to its next forward pass, as waiting."""
        if self._tells:
            self._hooks += [
                module.register_forward_pre_hook(lambda *_: self.go_on()),
                module.register_forward_hook(lambda *_: self.wait() if module.training and torch.is_grad_enabled() else None),
            ]

    def end(self):
        self.go_on()
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
