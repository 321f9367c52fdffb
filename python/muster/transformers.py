"""For Transformers' Trainer: reports progress, leaves on notice, and chooses which of its checkpoints to resume from.

    trainer = Trainer(..., callbacks=[muster.transformers.MusterCallback()])
    trainer.train(resume_from_checkpoint=muster.transformers.newest(arguments.output_dir))
"""

import os

from accelerate import PartialState
from transformers import TrainerCallback

import muster
import muster.torch
from muster import _checkpoints, _metrics


def _checkpoints_in(output_dir):
    return _checkpoints.numbered(output_dir, r"checkpoint-(\d+)")


def newest(output_dir):
    """The checkpoint in the directory to resume from, for resume_from_checkpoint; None if there is none. The Trainer's own
    choice may be a checkpoint that was incomplete when the Trainer was killed."""
    found = _checkpoints.newest(_checkpoints_in(output_dir), lambda path: os.path.exists(os.path.join(path, "trainer_state.json")))
    return found and found[1]


class MusterCallback(TrainerCallback):
    def __init__(self):
        self._leaves = False
        self._evaluation = None

    def on_train_begin(self, args, state, control, model=None, **_):
        self._leave = muster.torch.Leave()
        self._own_work = muster.torch.OwnWork()
        if model is not None:
            self._own_work.watch(model)
        if state.global_step:
            muster.resumed(state.global_step)
        if state.is_world_process_zero:
            # The Trainer will overwrite these checkpoints file by file.
            for step, path in _checkpoints_in(args.output_dir):
                if step > state.global_step:
                    _checkpoints.unseal(path)
        muster.step(state.global_step)

    def on_substep_end(self, args, state, control, **_):
        self._own_work.go_on()

    def on_pre_optimizer_step(self, args, state, control, **_):
        self._own_work.go_on()

    def on_step_end(self, args, state, control, **_):
        self._own_work.go_on()
        muster.step(state.global_step)
        if self._leave.after(state.global_step):
            self._leaves = control.should_save = True

    def on_save(self, args, state, control, **_):
        path, ranks = os.path.join(args.output_dir, f"checkpoint-{state.global_step}"), PartialState()
        with muster.section("checkpoint sync"):
            ranks.wait_for_everyone()  # until all ranks have written
            if state.is_local_process_zero and os.path.isdir(path):
                _checkpoints.sync_files(path)
            ranks.wait_for_everyone()
            if state.is_world_process_zero and os.path.isdir(path):
                _checkpoints.seal(path)
        muster.committed(state.global_step)
        if self._leaves:
            raise muster.Preempted

    def on_prediction_step(self, args, state, control, **_):
        if not self._evaluation:
            self._evaluation = muster.section("evaluation")
            self._evaluation.__enter__()

    def _evaluated(self):
        if self._evaluation:
            evaluation, self._evaluation = self._evaluation, None
            evaluation.__exit__()

    def on_log(self, args, state, control, logs=None, **_):
        if state.is_world_process_zero:
            _metrics.report_logged(logs or {}, state.global_step)

    def on_evaluate(self, args, state, control, **_):
        self._evaluated()

    def on_predict(self, args, state, control, metrics, **_):
        self._evaluated()

    def on_train_end(self, args, state, control, **_):
        self._own_work.end()
        muster.idle()
