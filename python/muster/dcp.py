"""torch.distributed.checkpoint, whose saves the launcher is told of.

    step = muster.dcp.load_newest(state, "checkpoints")     # 0: there is none
    ...
    muster.dcp.save(state, "checkpoints", step)             # or async_save
"""

import concurrent.futures
import dataclasses
import os

import torch.distributed as dist
import torch.distributed.checkpoint as dcp

import muster
from muster import _checkpoints


def path_of(directory, step):
    return os.path.join(directory, f"step-{step}")


def save(state_dict, directory, step, **options):
    """dcp.save() into DIRECTORY/step-STEP: whole and durable, or not there. It counts when all ranks are through."""
    path = path_of(directory, step)
    _make_room(path, options)
    saved = dcp.save(state_dict, checkpoint_id=_checkpoints.beside(path), **options)
    _end(path, step, options)
    return saved


def async_save(state_dict, directory, step, **options):
    """dcp.async_save() into DIRECTORY/step-STEP: the same once what it returns is done."""
    path = path_of(directory, step)
    _make_room(path, options)
    saving = dcp.async_save(state_dict, checkpoint_id=_checkpoints.beside(path), **options)
    in_place = concurrent.futures.Future()

    def written(future):
        try:
            saved = future.result()
            _end(path, step, options)
        except BaseException as error:  # for whoever waits
            in_place.set_exception(error)
        else:
            in_place.set_result(saved)

    if isinstance(saving, concurrent.futures.Future):
        saving.add_done_callback(written)
        return in_place
    saving.upload_completion.add_done_callback(written)
    return dataclasses.replace(saving, upload_completion=in_place)


def _is_coordinator(options):
    if options.get("no_dist") or not (dist.is_available() and dist.is_initialized()):
        return True
    return dist.get_rank(options.get("process_group")) == 0


def _make_room(path, options):
    # Nobody writes there before dcp's collective on the plan, to which the coordinator comes after this.
    if _is_coordinator(options):
        _checkpoints.remove(_checkpoints.beside(path))


def _end(path, step, options):
    # dcp syncs each file of tensors. The coordinator writes the metadata when all ranks have written theirs.
    if _is_coordinator(options):
        _checkpoints.put_in_place(path)
    muster.committed(step)


def _has_metadata(path):
    return os.path.exists(os.path.join(path, ".metadata"))


def newest(directory):
    """(step, path) of the checkpoint to go on from; None: there is none."""
    return _checkpoints.newest(_checkpoints.numbered(directory, r"step-(\d+)"), _has_metadata)


def load_newest(state_dict, directory, **options):
    """dcp.load() from that checkpoint. The step to go on from; 0: there is none."""
    found = newest(directory)
    if not found:
        return 0
    with muster.section("checkpoint restore"):
        dcp.load(state_dict, checkpoint_id=found[1], **options)
    muster.resumed(found[0])
    return found[0]
