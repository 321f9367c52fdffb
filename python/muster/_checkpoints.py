"""Checkpoints that a framework writes by itself: put in their place when they are whole and durable, and looked at before one is used.

A checkpoint is a directory or a file. The framework writes it beside its place, at beside(path). put_in_place() then syncs its files, writes the list
of them, syncs the list and the directories, and only then renames it. It moves what was at the place to replaced(path) first, and removes that last:
at any time one of the two is whole.
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
    """Where the checkpoint that will be at the path is written."""
    return _with_prefix(NEW, path)


def replaced(path):
    """Where the checkpoint that was at the path is while another one takes its place."""
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
    """What is written in the file, or in the files of the directory, is on the disk."""
    for each in _files_in(path) if os.path.isdir(path) else [path]:
        _sync(each)


def seal(directory):
    """Writes the list of the directory's files. All of it is on the disk then."""
    sync_files(directory)
    name = os.path.join(directory, LIST)
    with open(name + ".new", "w") as file:
        json.dump(_sizes_in(directory), file)
    _sync(name + ".new")
    os.replace(name + ".new", name)
    for each, _, _ in os.walk(directory, topdown=False):
        _sync(each)


def unseal(directory):
    """The directory's files are about to be written anew, one by one: it has no list any more, and that is on the disk."""
    if sealed(directory):
        os.remove(os.path.join(directory, LIST))
        _sync(directory)


def put_in_place(path):
    """One process makes what is written at beside(path) durable, and renames it to the path."""
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
    """Whether put_in_place(), or seal(), was through with this directory."""
    return os.path.exists(os.path.join(path, LIST))


def damage(path):
    """The first file that is not as the directory's list says, in words; "" if all are, or there is no list."""
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
            return f"{name} has {os.path.getsize(found)} bytes, and should have {size}"
    return ""


def numbered(directory, pattern):
    """[(step, path)] of what lies in the directory, by the step that the pattern's group finds in the whole name. Of what another one was about to
    replace: its path is replaced(...)."""
    names = os.listdir(directory) if os.path.isdir(directory) else []
    found = []
    for name in names:
        own_name = name[len(OLD):] if name.startswith(OLD) else name
        match = re.fullmatch(pattern, own_name)
        if match and not name.startswith(NEW) and (own_name == name or own_name not in names):
            found.append((int(match.group(1)), os.path.join(directory, name)))
    return sorted(found)


def newest(checkpoints, is_whole=lambda path: True):
    """Of [(step, path)] the one to go on from: what the launcher knows to be committed, and nothing newer while that or an older one is there; where it
    knows of none, as in a new launch, the newest. One that is damaged is named in a warning and left out. One without a list of its files may have
    been written in part: before those that have one it is taken only if the launcher knows it to be committed. None: none."""
    known = muster.resume_step()

    def preference(checkpoint):
        step, path = checkpoint
        return step == known, known is None or step <= known, os.path.isfile(path) or sealed(path), step

    for step, path in sorted(checkpoints, key=preference, reverse=True):
        why = damage(path) or ("" if is_whole(path) else "it is not whole")
        if not why:
            return step, path
        warnings.warn(f"muster: checkpoint {path} is left out: {why}", stacklevel=3)
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
        if error.errno != errno.EINVAL:  # a file system that does not sync directories
            raise
    finally:
        os.close(opened)
