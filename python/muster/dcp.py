"""Saves and loads with torch.distributed.checkpoint, and reports the saves to the launcher.

    step = muster.dcp.load_newest(state, "checkpoints")     # 0 without a checkpoint
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
    """dcp.save() into DIRECTORY/step-STEP, which appears only when complete and durable. It counts when all ranks have saved."""
    path = path_of(directory, step)
    _make_room(path, options)
    saved = dcp.save(state_dict, checkpoint_id=_checkpoints.beside(path), **options)
    _end(path, step, options)
    return saved


def async_save(state_dict, directory, step, **options):
    """dcp.async_save() into DIRECTORY/step-STEP, like save(); it counts when the returned future is done."""
    path = path_of(directory, step)
    _make_room(path, options)
    saving = dcp.async_save(state_dict, checkpoint_id=_checkpoints.beside(path), **options)
    in_place = concurrent.futures.Future()

    def written(future):
        try:
            saved = future.result()
            _end(path, step, options)
        except BaseException as error:  # passed on to the caller that waits
            in_place.set_exception(error)
        else:
            in_place.set_result(saved)

    if isinstance(saving, concurrent.futures.Future):
        saving.add_done_callback(written)
        return in_place
    saving.upload_completion.add_done_callback(written)
    return dataclasses.replace(saving, upload_completion=in_place)


def _is_alone(options):
    return options.get("no_dist") or not (dist.is_available() and dist.is_initialized())


def _is_coordinator(options):
    return _is_alone(options) or dist.get_rank(options.get("process_group")) == 0


def _make_room(path, options):
    # dcp makes the directory on every rank before its first collective, so no rank goes on before the coordinator has removed an old one.
    failed = [None]
    if _is_coordinator(options):
        try:
            _checkpoints.remove(_checkpoints.beside(path))
        except OSError as error:
            failed = [error]
    if not _is_alone(options):
        group = options.get("process_group")
        dist.broadcast_object_list(failed, src=dist.get_global_rank(group, 0) if group else 0, group=group)
    if failed[0]:
        raise failed[0]


def _end(path, step, options):
    # dcp syncs each file of tensors. The coordinator writes the metadata after all ranks have written their files.
    if _is_coordinator(options):
        _checkpoints.put_in_place(path)
    muster.committed(step)


def _has_metadata(path):
    return os.path.exists(os.path.join(path, ".metadata"))


def newest(directory):
    """(step, path) of the checkpoint to resume from; None if there is none."""
    return _checkpoints.newest(_checkpoints.numbered(directory, r"step-(\d+)"), _has_metadata)


def load_newest(state_dict, directory, **options):
    """dcp.load() from the newest() checkpoint. Returns its step; 0 if there is none."""
    found = newest(directory)
    if not found:
        return 0
    with muster.section("checkpoint restore"):
        dcp.load(state_dict, checkpoint_id=found[1], **options)
    muster.resumed(found[0])
    return found[0]
