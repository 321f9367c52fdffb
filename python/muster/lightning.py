"""For Lightning: reports progress, leaves on notice, and chooses which of Lightning's checkpoints to resume from.

    checkpoints = ModelCheckpoint(dirpath="checkpoints", every_n_train_steps=100, save_top_k=2, monitor="step", mode="max")
    trainer = Trainer(callbacks=[checkpoints, muster.lightning.MusterCallback()], ...)
    trainer.fit(model, data, ckpt_path=muster.lightning.newest("checkpoints"))
"""

import functools
import os
import zipfile

try:
    from lightning.pytorch.callbacks import Callback
    from lightning.pytorch.plugins.io import AsyncCheckpointIO
except ImportError:
    from pytorch_lightning.callbacks import Callback
    from pytorch_lightning.plugins.io import AsyncCheckpointIO

import muster
import muster.torch
from muster import _checkpoints, _metrics


def newest(directory):
    """The checkpoint in the directory to resume from, for ckpt_path; None if there is none. File names must contain the
    step, as Lightning's do: epoch=1-step=200.ckpt."""
    found = _checkpoints.newest(_checkpoints.numbered(directory, r".*step=(\d+).*\.ckpt"), lambda path: os.path.isdir(path) or zipfile.is_zipfile(path))
    return found and found[1]


def _is_remote(path):
    """Whether fsspec writes the path, such as s3://bucket/name: such a store shows only complete files."""
    return "://" in os.fspath(path)


class MusterCallback(Callback):
    """directory: where to save the checkpoint made on notice; by default the ModelCheckpoint's directory."""

    def __init__(self, directory=None):
        self._directory = directory
        self._section = None

    def setup(self, trainer, pl_module, stage):
        if stage != "fit":
            return
        # An asynchronous checkpoint counts when rank 0 has written it, any other when all ranks have returned.
        outer = trainer.strategy.checkpoint_io
        if isinstance(outer, AsyncCheckpointIO):
            inner = outer.checkpoint_io
            inner.save_checkpoint = functools.partial(self._written, inner.save_checkpoint)
        else:
            trainer.save_checkpoint = functools.partial(self._saved, trainer, trainer.save_checkpoint)

    def teardown(self, trainer, pl_module, stage):
        vars(trainer).pop("save_checkpoint", None)
        outer = trainer.strategy.checkpoint_io
        if isinstance(outer, AsyncCheckpointIO):
            vars(outer.checkpoint_io).pop("save_checkpoint", None)

    @staticmethod
    def _saved(trainer, save, filepath, weights_only=None, *arguments, **options):
        if _is_remote(filepath):
            save(filepath, weights_only, *arguments, **options)
        else:
            new = _checkpoints.beside(filepath)
            if trainer.is_global_zero:
                _checkpoints.remove(new)
            trainer.strategy.barrier("muster: room for a checkpoint")
            save(new, weights_only, *arguments, **options)
            if os.path.isdir(new):  # a checkpoint of many files, written by all ranks
                if trainer.local_rank == 0:
                    _checkpoints.sync_files(new)
                trainer.strategy.barrier("muster: a checkpoint is on the disk")
            if trainer.is_global_zero:
                _checkpoints.put_in_place(filepath)
        if not weights_only:
            muster.committed(trainer.global_step)

    @staticmethod
    def _written(save, checkpoint, path, *arguments, **options):
        if _is_remote(path):
            save(checkpoint, path, *arguments, **options)
        else:
            _checkpoints.remove(_checkpoints.beside(path))
            save(checkpoint, _checkpoints.beside(path), *arguments, **options)
            _checkpoints.put_in_place(path)
        if "optimizer_states" in checkpoint:
            muster.committed(checkpoint["global_step"], all=True)

    def on_train_start(self, trainer, pl_module):
        self._reported_by = {}
        self._leave = muster.torch.Leave()
        self._own_work = muster.torch.OwnWork()
        self._step = trainer.global_step
        if self._step:
            muster.resumed(self._step)
        muster.step(self._step)

    def on_before_backward(self, trainer, pl_module, loss):
        self._own_work.wait()

    def on_after_backward(self, trainer, pl_module):
        self._own_work.go_on()

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.global_step == self._step:
            return  # the gradients are still accumulating
        self._step = trainer.global_step
        muster.step(self._step)
        if not self._leave.after(self._step):
            return
        checkpoints = trainer.checkpoint_callback
        directory = self._directory or getattr(checkpoints, "dirpath", None) or trainer.default_root_dir
        trainer.save_checkpoint(os.path.join(directory, f"epoch={trainer.current_epoch}-step={self._step}.ckpt"))
        if isinstance(trainer.strategy.checkpoint_io, AsyncCheckpointIO):
            trainer.strategy.checkpoint_io.teardown()  # waits until the checkpoint is written
        raise muster.Preempted

    def on_train_epoch_end(self, trainer, pl_module):
        self._report(trainer, "epoch")

    def _report(self, trainer, hook):
        """Reports the metrics of this hook. Lightning keeps old values, so a metric belongs to the hook that sees it first."""
        if trainer.is_global_zero and hasattr(self, "_reported_by"):
            own = {name: value for name, value in trainer.callback_metrics.items() if self._reported_by.setdefault(name, hook) == hook}
            _metrics.report_logged(own, trainer.global_step)

    def on_train_end(self, trainer, pl_module):
        muster.idle()

    def _enter(self, name):
        self._section = muster.section(name)
        self._section.__enter__()

    def _go_out(self):
        if self._section:
            section, self._section = self._section, None
            section.__exit__()

    def on_validation_start(self, trainer, pl_module):
        self._enter("validation")

    def on_validation_end(self, trainer, pl_module):
        self._go_out()
        if not trainer.sanity_checking:
            self._report(trainer, "validation")

    def on_test_start(self, trainer, pl_module):
        self._enter("test")

    def on_test_end(self, trainer, pl_module):
        self._go_out()
