"""For trainings with torch.distributed."""

import os

import torch
import torch.distributed as dist

import muster
from muster import _rank

_STEPS_AHEAD = 2
_instances = 0


class Leave:
    """How all ranks come to leave at one step, once this machine is to go away.

        leave = muster.torch.Leave()
        for step in ...:
            train_one_step()
            if leave.after(step):
                save(step)
                muster.committed(step)
                raise muster.Preempted

    All ranks make theirs in the same order, and ask after each step. Each posts in the attempt's store the step that it
    has done when it hears of the notice; when all have posted, they leave two steps after the highest. A rank is at most
    one step ahead of another, for each step waits for all, so every rank learns of it in time. Nobody waits, and until
    there is notice nothing is sent.
    """

    def __init__(self):
        global _instances
        _instances += 1
        self._keys = f"muster/leave/{_instances}/"
        self._store = self._last = None
        muster.preemption_noticed()  # from now on this rank can leave in time

    def after(self, step):
        """Whether to save and leave now, after this step."""
        if not muster.preemption_noticed():
            return False
        if self._last is None:
            try:
                self._last = self._agreed(step)
            except (RuntimeError, ValueError, KeyError):  # the store is gone, or was never there
                return False
            if self._last is not None:
                _rank.mine().saving(self._last)
        return self._last is not None and step >= self._last

    def _agreed(self, step):
        if not dist.is_initialized() or dist.get_world_size() == 1:
            return step
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()  # without it a rank may be many steps ahead
        if self._store is None:
            self._store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
            self._store.set(self._keys + str(dist.get_rank()), str(step))
        keys = [self._keys + str(rank) for rank in range(dist.get_world_size())]
        if not self._store.check(keys):
            return None
        return max(int(value) for value in self._store.multi_get(keys)) + _STEPS_AHEAD


class OwnWork:
    """Tells a rank's own work from its wait for others, so that stragglers are found: a backward pass waits for all, and
    counts as waiting. For trainings on the CPU: on a GPU the program's time is not the GPU's, and nothing is told."""

    def __init__(self):
        self._waiting = None
        self._hooks = []
        self._tells = dist.is_initialized() and dist.get_world_size() > 1 and not torch.cuda.is_initialized()

    def wait(self):
        """A backward pass begins."""
        if self._tells and not self._waiting:
            self._waiting = muster.waiting()
            self._waiting.__enter__()

    def go_on(self):
        """It has ended."""
        if self._waiting:
            waiting, self._waiting = self._waiting, None
            waiting.__exit__()

    def watch(self, module):
        """What lies between the module's forward pass and go_on(), or its next one, is waiting."""
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
