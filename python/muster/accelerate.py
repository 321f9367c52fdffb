"""For Accelerate: reports a training's progress, and saves and restores Accelerate's checkpoints.

    training = muster.accelerate.Training(accelerator, "checkpoints", every=100)
    for step in range(training.resume() + 1, steps + 1):
        ...
        training.step(step)
"""

import os

import muster
import muster.torch
from muster import _checkpoints, _metrics


def newest(directory):
    """(step, path) of the checkpoint to resume from; None if there is none."""
    return _checkpoints.newest(_checkpoints.numbered(directory, r"step-(\d+)"))


class Training:
    """directory: shared by all ranks. every: steps between saves; 0: the program calls save() itself."""

    def __init__(self, accelerator, directory, every=0):
        self._accelerator = accelerator
        self._directory = os.fspath(directory)
        self._every = every
        self._leave = muster.torch.Leave()
        self._own_work = muster.torch.OwnWork()
        self._backward = accelerator.backward
        accelerator.backward = self._wait_in_backward
        self._log = accelerator.log
        accelerator.log = self._report_and_log
        self._step = None  # the newest

    def _wait_in_backward(self, *arguments, **options):
        self._own_work.wait()
        try:
            return self._backward(*arguments, **options)
        finally:
            self._own_work.go_on()

    def _report_and_log(self, values, step=None, *arguments, **options):
        if self._accelerator.is_main_process:
            _metrics.report_logged(values, self._step if step is None else step)
        return self._log(values, step, *arguments, **options)

    def resume(self):
        """Loads the checkpoint to resume from, and returns its step; 0 if there is none. Call it after accelerator.prepare()."""
        found = newest(self._directory)
        if found:
            with muster.section("checkpoint restore"):
                self._accelerator.load_state(found[1])
            muster.resumed(found[0])
            self._step = found[0]
        muster.step(found[0] if found else 0)
        return found[0] if found else 0

    def step(self, step):
        """Reports that `step` steps are done. Saves when due, and leaves with exit code 75 on notice."""
        muster.step(step)
        self._step = step
        leaves = self._leave.after(step)
        if leaves or (self._every and step % self._every == 0):
            self.save(step)
        if leaves:
            raise muster.Preempted

    def save(self, step):
        """accelerator.save_state() into DIRECTORY/step-STEP, which appears only when complete and durable. Call it on all ranks."""
        path = os.path.join(self._directory, f"step-{step}")
        new = _checkpoints.beside(path)
        accelerator = self._accelerator
        with muster.section("checkpoint save"):
            if accelerator.is_main_process:
                _checkpoints.remove(new)
                os.makedirs(self._directory, exist_ok=True)
            accelerator.wait_for_everyone()
            accelerator.save_state(new)
            accelerator.wait_for_everyone()
            if accelerator.is_local_main_process:
                _checkpoints.sync_files(new)  # the files that this machine wrote
            accelerator.wait_for_everyone()
            if accelerator.is_main_process:
                _checkpoints.put_in_place(path)
                muster.committed(step, all=True)
            accelerator.wait_for_everyone()

    def end(self):
        """Reports that no more steps follow."""
        muster.idle()
