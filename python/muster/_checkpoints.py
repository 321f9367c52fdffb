"""Makes a framework's checkpoints durable before they get their final name, and checks a checkpoint before it is used.

A checkpoint is a directory or a file. The framework writes it next to its final place, at beside(path). put_in_place() then syncs its files, writes
the list of them, syncs the list and the directories, and only then renames it. It first moves an old checkpoint at the final place to replaced(path),
and removes that last: at any time one of the two is whole.
"""

import errno
import json
import os
import re
import shutil
import warnings

import muster

NEW, OLD = "muster-new-", "muster-old-"
LIST = "muster-files.json"  # in a checkpoint: the size in bytes of each of its files, by the path in it


def beside(path):
    """The temporary path where the framework writes the checkpoint for `path`."""
    return _with_prefix(NEW, path)


def replaced(path):
    """The temporary path of the old checkpoint while a new one replaces it."""
    return _with_prefix(OLD, path)


def _with_prefix(prefix, path):
    directory, name = os.path.split(os.fspath(path))
    return os.path.join(directory, prefix + name)


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.remove(path)


def sync_files(path):
    """Syncs the file, or all files of the directory, to the disk."""
    for each in _files_in(path) if os.path.isdir(path) else [path]:
        _sync(each)


def seal(directory):
    """Writes the list of the directory's files, and syncs everything to the disk."""
    sync_files(directory)
    name = os.path.join(directory, LIST)
    with open(name + ".new", "w") as file:
        json.dump(_sizes_in(directory), file)
    _sync(name + ".new")
    os.replace(name + ".new", name)
    for each, _, _ in os.walk(directory, topdown=False):
        _sync(each)


def unseal(directory):
    """Removes the list of the directory's files, and syncs that, because the files are about to be rewritten one by one."""
    if sealed(directory):
        os.remove(os.path.join(directory, LIST))
        _sync(directory)


def put_in_place(path):
    """Syncs the checkpoint at beside(path), and renames it to the path. Call it in one process."""
    new, old = beside(path), replaced(path)
    if os.path.isdir(new):
        seal(new)
    else:
        _sync(new)
    if os.path.isdir(path) or (os.path.isdir(new) and os.path.lexists(path)):  # a directory cannot be replaced in one step
        remove(old)
        os.rename(path, old)
    os.replace(new, path)
    _sync(os.path.dirname(path) or ".")
    remove(old)


def sealed(path):
    """Whether put_in_place() or seal() has completed for this directory."""
    return os.path.exists(os.path.join(path, LIST))


def damage(path):
    """Describes the first file that does not match the directory's list; "" if all match, or without a list."""
    if not sealed(path):
        return ""
    try:
        with open(os.path.join(path, LIST)) as file:
            listed = json.load(file)
    except ValueError:
        return f"its list {LIST} cannot be read"
    for name, size in sorted(listed.items()):
        found = os.path.join(path, name)
        if not os.path.isfile(found):
            return f"{name} is missing"
        if os.path.getsize(found) != size:
            return f"{name} has {os.path.getsize(found)} bytes, expected {size}"
    return ""


def numbered(directory, pattern):
    """[(step, path)] of the checkpoints in the directory, sorted by step; the pattern's group finds the step in the whole name. A checkpoint that
    another one was about to replace has the path replaced(...)."""
    names = os.listdir(directory) if os.path.isdir(directory) else []
    found = []
    for name in names:
        own_name = name[len(OLD):] if name.startswith(OLD) else name
        match = re.fullmatch(pattern, own_name)
        if match and not name.startswith(NEW) and (own_name == name or own_name not in names):
            found.append((int(match.group(1)), os.path.join(directory, name)))
    return sorted(found)


def newest(checkpoints, is_whole=lambda path: True):
    """Chooses from [(step, path)] the checkpoint to resume from; None if there is none.

    The committed checkpoint that the launcher knows comes first, then older ones, then newer ones. If the launcher knows of none, as in a new launch,
    the newest comes first. A checkpoint without a list of its files may be incomplete, so it comes after those with a list, unless the launcher knows
    it to be committed. A damaged checkpoint is skipped with a warning.
    """
    known = muster.resume_step()

    def preference(checkpoint):
        step, path = checkpoint
        return step == known, known is None or step <= known, os.path.isfile(path) or sealed(path), step

    for step, path in sorted(checkpoints, key=preference, reverse=True):
        why = damage(path) or ("" if is_whole(path) else "it is incomplete")
        if not why:
            return step, path
        warnings.warn(f"muster: skipping checkpoint {path}: {why}", stacklevel=3)
    return None


def _files_in(directory):
    return [os.path.join(folder, name) for folder, _, names in os.walk(directory) for name in names]


def _sizes_in(directory):
    return {os.path.relpath(each, directory): os.path.getsize(each) for each in _files_in(directory) if os.path.basename(each) not in (LIST, LIST + ".new")}


def _sync(path):
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno != errno.EINVAL:  # this file system cannot sync directories
            raise
    finally:
        os.close(opened)
