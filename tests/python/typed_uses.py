"""Uses of each module of `muster`, for types_test.py: nothing runs them. A line with `type: ignore` is one that mypy must refuse."""

import os
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Optional, Tuple, Union, assert_type

import accelerate
import lightning.pytorch
import numpy
import torch
import transformers
import wandb
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.state_dict_saver import AsyncSaveResponse

import muster
import muster.accelerate
import muster.dcp
import muster.lightning
import muster.torch
import muster.transformers
import muster.wandb


def own_loop(loss: torch.Tensor) -> None:
    assert_type(muster.resume_step(), Optional[int])
    for step in range(1 + (muster.resume_step() or 0), 10):
        with muster.section("data") as data, muster.waiting():
            assert_type(data, muster.section)
        muster.step(step, loss=loss, samples=64, group=None)
        muster.committed(step, all=True)
        if assert_type(muster.preemption_noticed(), bool):
            raise muster.Preempted
    muster.step()
    muster.step(numpy.int64(3), busy_ms=numpy.float32(2))
    muster.resumed(3)
    muster.idle()
    muster.step(1.5)  # type: ignore[arg-type]
    muster.step("3")  # type: ignore[arg-type]
    muster.step(3, loss=[1.0])  # type: ignore[arg-type]
    muster.section()  # type: ignore[call-arg]


@muster.section("eval")
def evaluate(batches: int) -> float:
    return batches / 2


@muster.waiting()
def barrier() -> None: ...


def metrics(loss: torch.Tensor, rows: "dict[str, numpy.float32]") -> None:
    assert_type(evaluate(3), float)
    barrier()
    muster.report("loss", 0.25)
    muster.report("loss", loss, step=3)
    muster.report({"loss": loss, "accuracy": 0.5}, step=3)
    muster.report(rows)
    muster.report("loss")  # type: ignore[call-overload]
    muster.report({"loss": object()})  # type: ignore[dict-item]
    muster.report({"loss": 1.0}, 3)  # type: ignore[call-overload]
    evaluate("many")  # type: ignore[arg-type]


def with_torch(module: torch.nn.Module) -> None:
    leave, work = muster.torch.Leave(), muster.torch.OwnWork()
    assert_type(leave.after(3), bool)
    work.watch(module)
    work.wait()
    work.go_on()
    work.end()


def with_dcp(state: "dict[str, Any]", group: torch.distributed.ProcessGroup) -> None:
    assert_type(muster.dcp.load_newest(state, "checkpoints"), int)
    assert_type(muster.dcp.save(state, Path("checkpoints"), 3), Metadata)
    assert_type(muster.dcp.async_save(state, "checkpoints", 3, process_group=group), Union["Future[Any]", AsyncSaveResponse])
    assert_type(muster.dcp.newest("checkpoints"), Optional[Tuple[int, str]])
    muster.dcp.save(state, "checkpoints")  # type: ignore[call-arg]


def with_accelerate(accelerator: accelerate.Accelerator) -> None:
    training = muster.accelerate.Training(accelerator, Path("checkpoints"), every=100)
    for step in range(training.resume() + 1, 10):
        training.step(step)
    training.save(10)
    training.end()
    assert_type(muster.accelerate.newest("checkpoints"), Optional[Tuple[int, str]])
    muster.accelerate.Training("checkpoints", every=100)  # type: ignore[call-arg, arg-type]


class Noisy(muster.lightning.MusterCallback):
    def on_train_start(self, trainer: lightning.pytorch.Trainer, pl_module: lightning.pytorch.LightningModule) -> None:
        print("begins")
        super().on_train_start(trainer, pl_module)


def with_lightning(model: lightning.pytorch.LightningModule) -> None:
    trainer = lightning.pytorch.Trainer(callbacks=[Noisy(Path("on_notice"))])
    trainer.fit(model, ckpt_path=assert_type(muster.lightning.newest("checkpoints"), Optional[str]))


def with_transformers(model: transformers.PreTrainedModel, arguments: transformers.TrainingArguments) -> None:
    trainer = transformers.Trainer(model=model, args=arguments, callbacks=[muster.transformers.MusterCallback()])
    trainer.train(resume_from_checkpoint=assert_type(muster.transformers.newest("runs"), Optional[str]))


def with_wandb() -> None:
    passing = muster.wandb.Passing(wandb.init())
    for line in muster.wandb.Tail(os.path.join("runs", "metrics.jsonl")).read():
        passing.line(line)
    muster.wandb.main()
