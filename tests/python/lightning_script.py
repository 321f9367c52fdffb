"""usage: lightning_script.py DIRECTORY: a training with Lightning's own checkpoints and the test's faults."""

import os
import sys

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.plugins.io import AsyncCheckpointIO

import muster.lightning
from common import EVERY, STEPS, STEPS_OF_AN_EPOCH, batch_of, faults_after, net, print_digest

directory = sys.argv[1]


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = net()

    # The batch follows from the step; Lightning restarts the loader in the middle of an epoch.
    def training_step(self, batch, batch_idx):
        data, target = batch_of(self.global_step, self.global_rank)
        return torch.nn.functional.cross_entropy(self.net(data), target)

    def validation_step(self, batch, batch_idx):
        pass

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)

    def on_train_batch_end(self, outputs, batch, batch_idx):
        faults_after(self.global_step, directory)


def loader(size):
    return torch.utils.data.DataLoader(torch.arange(2 * size), batch_size=1)


model = Model()
trainer = pl.Trainer(
    accelerator="cpu",
    devices=2,
    strategy="ddp",
    max_steps=STEPS,
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    default_root_dir=directory,
    plugins=[AsyncCheckpointIO()] if os.environ["MUSTER_ATTEMPT"] == "2" else [],
    callbacks=[
        ModelCheckpoint(directory, every_n_train_steps=EVERY, save_top_k=2, monitor="step", mode="max"),
        muster.lightning.MusterCallback(),
    ],
)
trainer.fit(model, loader(STEPS_OF_AN_EPOCH), loader(1), ckpt_path=muster.lightning.newest(directory))
print_digest(model.net)
