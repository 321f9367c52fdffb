"""torch.distributed.checkpoint, whose saves the launcher is told of.

    step = muster.dcp.load_newest(state, "checkpoints")     # 0: there is none
    ...
    muster.dcp.save(state, "checkpoints", step)             # or async_save
"""

import os

import torch.distributed.checkpoint as dcp

import muster
from muster import _checkpoints


def path_of(directory, step):
    return os.path.join(directory, f"step-{step}")


def save(state_dict, directory, step, **options):
    """dcp.save() into DIRECTORY/step-STEP. A checkpoint counts when its metadata is written, on all ranks."""
    saved = dcp.save(state_dict, checkpoint_id=path_of(directory, step), **options)
    muster.committed(step)
    return saved


def async_save(state_dict, directory, step, **options):
    """dcp.async_save() into DIRECTORY/step-STEP: the same once what it returns is done."""
    saving = dcp.async_save(state_dict, checkpoint_id=path_of(directory, step), **options)
    future = getattr(saving, "upload_completion", saving)
    future.add_done_callback(lambda done: done.exception() or muster.committed(step))
    return saving


def newest(directory):
    """(step, path) of the checkpoint to go on from; None: there is none."""
    found = _checkpoints.numbered(directory, r"^step-(\d+)$")
    return _checkpoints.newest({step: path for step, path in found.items() if os.path.exists(os.path.join(path, ".metadata"))})


def load_newest(state_dict, directory, **options):
    """dcp.load() from that checkpoint. The step to go on from; 0: there is none."""
    found = newest(directory)
    if not found:
        return 0
    with muster.section("checkpoint restore"):
        dcp.load(state_dict, checkpoint_id=found[1], **options)
    muster.resumed(found[0])
    return found[0]
