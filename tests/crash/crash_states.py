"""The possible contents of a disk after a crash: runs a program under strace, then builds each state that its system calls allow.

The model: a file's bytes are on the disk once the file was synced after they were written; a name (made, renamed or removed) once its directory was.
Any part of the rest may be there: each write whole, in either half or not at all, each name or not. A rename is one step. A kill without a loss
of power keeps all of it. Lines on standard output that begin with "ack" are the program's promises so far; record() can be given another function
that finds promises in the program's writes and messages.

    recording = record(command, root)
    for disk, promised, behind in states(recording, seed):
        build(disk, place)
"""

import itertools
import math
import os
import random
import re
import shutil
import subprocess
import tempfile

CALLS = ("openat,creat,write,pwrite64,rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,link,linkat,symlink,symlinkat,fsync,fdatasync,"
         "ftruncate,lseek,writev,pwritev,pwritev2,copy_file_range,sendfile,truncate,fallocate,sendto")
# The model does not follow writes by these calls; it refuses a program that makes one.
UNKNOWN = {"pwritev", "pwritev2", "copy_file_range", "sendfile", "truncate", "symlink", "symlinkat"}

# How much of a write is on the disk; 1 is all of it, 0 nothing.
FIRST_HALF, SECOND_HALF = 0.5, -0.5


class Change:
    """One change to a disk. `of`: what must be synced to make it durable: ("file", inode) or ("names", {inode of a directory, ...})."""

    def __init__(self, of, apply, text):
        self.of, self.apply, self.text = of, apply, text


class Disk:
    """Inodes: a file's bytes, or a directory's {name: inode}. Inode 0 is the root."""

    def __init__(self, inodes=None):
        self.inodes = inodes or {0: {}}

    def copy(self):
        return Disk({inode: dict(held) if isinstance(held, dict) else held for inode, held in self.inodes.items()})

    def tree(self, inode=0):
        held = self.inodes.get(inode, b"")
        if not isinstance(held, dict):
            return held
        return tuple((name, self.tree(child)) for name, child in sorted(held.items()))

    def build(self, place, inode=0):
        os.mkdir(place)
        for name, child in self.inodes[inode].items():
            held = self.inodes.get(child, b"")
            if isinstance(held, dict):
                self.build(os.path.join(place, name), child)
            else:
                with open(os.path.join(place, name), "wb") as file:
                    file.write(held)

    @staticmethod
    def read(place):
        disk = Disk()

        def add(inode, folder):
            for name in sorted(os.listdir(folder)):
                child, path = len(disk.inodes), os.path.join(folder, name)
                disk.inodes[inode][name] = child
                if os.path.isdir(path):
                    disk.inodes[child] = {}
                    add(child, path)
                else:
                    with open(path, "rb") as file:
                        disk.inodes[child] = file.read()

        add(0, place)
        return disk


def _bytes_of(text):
    """The bytes that strace -xx prints as text."""
    return bytes.fromhex(text.replace("\\x", ""))


def _set_name(directory, name, inode):
    def apply(disk, _part=1):
        held = disk.inodes.setdefault(directory, {})
        if inode is None:
            held.pop(name, None)
        else:
            held[name] = inode

    return apply


def _write(inode, offset, data):
    def apply(disk, part=1):
        middle = len(data) // 2
        begin, end = {1: (0, len(data)), FIRST_HALF: (0, middle), SECOND_HALF: (middle, len(data))}[part]
        held = disk.inodes.get(inode, b"").ljust(offset + begin, b"\0")
        disk.inodes[inode] = held[:offset + begin] + data[begin:end] + held[offset + end:]

    return apply


def _allocate(inode, size):
    def apply(disk, _part=1):
        disk.inodes[inode] = disk.inodes.get(inode, b"").ljust(size, b"\0")

    return apply


def _cut(inode, size):
    def apply(disk, _part=1):
        disk.inodes[inode] = disk.inodes.get(inode, b"")[:size].ljust(size, b"\0")

    return apply


def acks(data):
    """The promises that a program writes to its standard output."""
    return data.decode().splitlines() if data.startswith(b"ack") else []


class Recording:
    """The changes, syncs and promises of a run, in order."""

    def __init__(self, root, start):
        self.root, self.start = root, start
        self.steps = []  # ("change", Change), ("sync", inode, path, number of steps before it began), ("ack", text)
        self.now = start.copy()
        self._next = max(start.inodes) + 1
        self._offsets = {}  # keys are descriptor and path: several processes have the same descriptors

    def killed_behind(self, count):
        """The recording of a run whose processes are killed after `count` steps. record() can continue it."""
        killed = Recording(self.root, self.start)
        killed.steps, killed._next = self.steps[:count], self._next
        for kind, *what in killed.steps:
            if kind == "change":
                what[0].apply(killed.now)
        return killed

    def _names_of(self, path):
        relative = os.path.relpath(path, self.root)
        return None if relative.startswith("..") else [] if relative == "." else relative.split(os.sep)

    def inode_of(self, path):
        names = self._names_of(path)
        inode = 0 if names is not None else None
        for name in names or []:
            held = self.now.inodes.get(inode)
            inode = held.get(name) if isinstance(held, dict) else None
        return inode

    def _place_of(self, path):
        return self.inode_of(os.path.dirname(path)), os.path.basename(path)

    def _change(self, of, applies, text):
        def apply(disk, part=1):
            for each in applies:
                each(disk, part)

        apply(self.now)
        self.steps.append(("change", Change(of, apply, text)))

    def made(self, path, is_directory):
        directory, name = self._place_of(path)
        if directory is None:
            return
        inode, self._next = self._next, self._next + 1
        self.now.inodes[inode] = {} if is_directory else b""
        born = _set_name(directory, name, inode)

        def apply(disk, _part=1):
            disk.inodes.setdefault(inode, {} if is_directory else b"")
            born(disk)

        self._change(("names", {directory}), [apply], f"make {path}")

    def removed(self, path):
        directory, name = self._place_of(path)
        if directory is not None and self.inode_of(path) is not None:
            self._change(("names", {directory}), [_set_name(directory, name, None)], f"remove {path}")

    def renamed(self, old, new, exchange=False):
        (from_directory, from_name), (to_directory, to_name) = self._place_of(old), self._place_of(new)
        inode = self.inode_of(old)
        if inode is None or to_directory is None:
            return
        other = self.inode_of(new) if exchange else None
        self._change(("names", {from_directory, to_directory}),
                     [_set_name(to_directory, to_name, inode), _set_name(from_directory, from_name, other)], f"rename {old} to {new}")

    def linked(self, old, new):
        inode, (directory, name) = self.inode_of(old), self._place_of(new)
        if inode is not None and directory is not None:
            self._change(("names", {directory}), [_set_name(directory, name, inode)], f"link {old} to {new}")

    def allocated(self, path, size):
        inode = self.inode_of(path)
        if inode is not None:
            self._change(("file", inode), [_allocate(inode, size)], f"allocate {size} bytes of {path}")

    def written(self, path, offset, data):
        inode = self.inode_of(path)
        if inode is not None:
            self._change(("file", inode), [_write(inode, offset, data)], f"write {len(data)} bytes of {path} at {offset}")

    def cut(self, path, size):
        inode = self.inode_of(path)
        if inode is not None:
            self._change(("file", inode), [_cut(inode, size)], f"cut {path} to {size}")

    def synced(self, path, begun_at):
        inode = self.inode_of(path)
        if inode is not None:
            self.steps.append(("sync", inode, path, begun_at))

    def hear(self, name, arguments, result, begun_at, promises_in):
        """Adds one line of strace. begun_at: the number of steps recorded when the call began."""
        paths = [_bytes_of(text).decode() for text in re.findall(r'[<"]((?:\\x[0-9a-f]{2})+)[>"]', arguments)] \
            if name not in ("write", "pwrite64", "writev", "sendto") else []
        here = os.getcwd()
        if name in ("openat", "creat"):
            opened = re.match(r"(\d+)<((?:\\x[0-9a-f]{2})+)>", result)
            if not opened:
                return
            path = _bytes_of(opened.group(2)).decode()
            self._offsets[opened.groups()] = 0
            writes = "O_WRONLY" in arguments or "O_RDWR" in arguments or name == "creat"
            if ("O_CREAT" in arguments or name == "creat") and self.inode_of(path) is None:
                self.made(path, False)
            elif writes and ("O_TRUNC" in arguments or name == "creat"):
                self.cut(path, 0)
            if writes and "O_APPEND" in arguments and self.inode_of(path) is not None:
                self._offsets[opened.groups()] = len(self.now.inodes[self.inode_of(path)])
            return
        opened = re.match(r"(\d+)<((?:\\x[0-9a-f]{2})*)>", arguments)
        if name == "lseek":
            self._offsets[opened.groups()] = int(result.split()[0])
        elif name in ("write", "pwrite64", "writev", "sendto"):
            data = b"".join(_bytes_of(part) for part in re.findall(r'"((?:\\x[0-9a-f]{2})*)"', arguments))[:int(result.split()[0])]
            promised = promises_in(data) if name == "sendto" or opened.group(1) == "1" else []
            self.steps += [("ack", line) for line in promised]
            if promised or name == "sendto":
                return
            offset = int(arguments.rsplit(", ", 1)[1]) if name == "pwrite64" else self._offsets.get(opened.groups(), 0)
            if name != "pwrite64":
                self._offsets[opened.groups()] = offset + len(data)
            self.written(_bytes_of(opened.group(2)).decode(), offset, data)
        elif name in ("fsync", "fdatasync"):
            self.synced(paths[0], begun_at)
        elif name == "fallocate":
            _, mode, offset, size = arguments.rsplit(", ", 3)
            if mode != "0":
                raise AssertionError(f"the model does not know {name}({arguments})")
            self.allocated(paths[0], int(offset) + int(size))
        elif name == "ftruncate":
            self.cut(paths[0], int(arguments.rsplit(", ", 1)[1]))
        elif name in ("rename", "renameat", "renameat2"):
            old, new = paths if name == "rename" else (os.path.join(*paths[0:2]), os.path.join(*paths[2:4]))
            self.renamed(os.path.join(here, old), os.path.join(here, new), "EXCHANGE" in arguments)
        elif name in ("link", "linkat"):
            old, new = paths if name == "link" else (os.path.join(*paths[0:2]), os.path.join(*paths[2:4]))
            self.linked(os.path.join(here, old), os.path.join(here, new))
        elif name in ("unlink", "rmdir"):
            self.removed(os.path.join(here, paths[0]))
        elif name == "unlinkat":
            self.removed(os.path.join(*paths))
        elif name in ("mkdir", "mkdirat"):
            self.made(os.path.join(here, *paths), True)
        elif name in UNKNOWN and any(self._names_of(os.path.join(here, each)) for each in paths):
            raise AssertionError(f"the model does not know {name}({arguments})")


def record(command, root, environment=None, promises_in=acks, behind=None):
    """Runs the command and returns its changes below the directory `root`, which need not be empty. behind: a recording to continue; `root` holds
    its `now`."""
    recording = behind.killed_behind(len(behind.steps)) if behind else Recording(os.path.realpath(root), Disk.read(root))
    with tempfile.TemporaryDirectory() as scratch:
        trace = os.path.join(scratch, "trace")
        subprocess.run(["strace", "-f", "--seccomp-bpf", "-y", "-xx", "-s", "100000000", "-e", "trace=" + CALLS, "-e", "signal=none", "-o", trace, *command],
                       check=True, stdout=subprocess.PIPE, env=environment)
        begun = {}
        with open(trace) as lines:
            for line in lines:
                process, line = line.rstrip("\n").split(None, 1)
                if line.endswith("<unfinished ...>"):
                    begun[process] = line[:-len("<unfinished ...>")], len(recording.steps)
                    continue
                begun_at = len(recording.steps)
                resumed = re.match(r"<\.\.\. \w+ resumed>", line)
                if resumed:
                    first, begun_at = begun.pop(process)
                    line = first + line[resumed.end():]
                heard = re.match(r"(\w+)\((.*)\)\s+= (.*)$", line)
                if heard and not heard.group(3).startswith(("-1", "?")):
                    recording.hear(*heard.groups(), begun_at, promises_in)
    return recording


def states(recording, seed=0, of_each=200, forgets=lambda path: False, first=0, told=None):
    """Yields (disk, promises, what happened): the possible contents of the disk after a crash behind each step. forgets: the paths whose syncs are
    ignored. first: no crash happens before this step, and all earlier syncs are made. told: states to skip; new states are added."""
    chance = random.Random(seed)
    told = set() if told is None else told
    changes, promised = [], []  # changes: [change, is it on the disk, its step]
    for number, (kind, *what) in enumerate(recording.steps):
        if kind == "change":
            changes.append([what[0], False, number])
        elif kind == "ack":
            promised.append(what[0])
        elif number < first or not forgets(what[1]):
            for each in changes:
                of, on = each[0].of
                each[1] = each[1] or each[2] < what[2] and (what[0] == on if of == "file" else what[0] in on)
        if number < first:
            continue
        open_ones = [index for index, (_, is_there, _) in enumerate(changes) if not is_there]
        for parts in _choices(len(open_ones), [changes[index][0].of[0] == "file" for index in open_ones], of_each, chance):
            part_of = dict(zip(open_ones, parts))
            disk = recording.start.copy()
            for index, (change, _, _) in enumerate(changes):
                part = part_of.get(index, 1)
                if part:
                    change.apply(disk, part)
            key = (disk.tree(), tuple(promised))
            if key not in told:
                told.add(key)
                yield disk, list(promised), changes[-1][0].text if changes else "start"


def _choices(count, of_files, most, chance):
    """For each change that was not synced, how much of it is on the disk anyway."""
    values = [(1, 0, FIRST_HALF, SECOND_HALF) if of_file else (1, 0) for of_file in of_files]
    if math.prod(map(len, values)) <= most:
        yield from itertools.product(*values)
        return
    yield (1,) * count
    yield (0,) * count
    for index in range(count):
        yield tuple(0 if each == index else 1 for each in range(count))
        yield tuple(1 if each == index else 0 for each in range(count))
    for _ in range(most):
        yield tuple(chance.choice(each) for each in values)


def build(disk, place):
    shutil.rmtree(place, ignore_errors=True)
    disk.build(place)
