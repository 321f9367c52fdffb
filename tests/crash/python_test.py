"""usage: python_test.py [TEST...]: checkpoints that the Python helpers of `muster` leave behind after any crash.

After each crash the newest checkpoint must be whole, of one save, and not older than the last promised one; also after a second crash of a run that
resumed from such a disk. With any one kind of sync left out, some disk must break this, which shows that each kind is needed.
"""

import collections
import os
import random
import sys
import tempfile
import unittest
import warnings

import torch
import torch.distributed.checkpoint as dcp

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "python")]

import crash_states
import muster.accelerate
import muster.dcp
from muster import _checkpoints

STEPS = [10, 20, 20, 30]  # 20 is repeated, as after a failure
SEED = int(os.environ.get("SEED", "1"))


def dcp_marks(path):
    state = {"one": torch.zeros(3), "other": torch.zeros(3)}
    dcp.load(state, checkpoint_id=path)
    return {float(each) for tensor in state.values() for each in tensor}


def accelerate_marks(path):
    from safetensors.torch import load_file
    torch.load(os.path.join(path, "optimizer.bin"))
    return {float(each) for tensor in load_file(os.path.join(path, "model.safetensors")).values() for each in tensor.flatten()}


def wrong_in(place, promised, newest, marks_of):
    """An error of the checkpoint from which a training would resume; "" if all is right."""
    found = newest(place)
    last = [int(word) for word in promised[-1].split()[1:]] if promised else None
    if found is None:
        return f"none is found, and {last} was promised" if last else ""
    try:
        marks = marks_of(found[1])
    except BaseException as error:  # any error of a torn file: dcp's CheckpointException is not an Exception
        return f"{found} cannot be loaded: {type(error).__name__}"
    if len(marks) != 1:
        return f"{found} has {marks}"
    if last and next(iter(marks)) < last[1]:
        return f"{found} of save {marks} is older than {last}, which was promised"
    return ""


KINDS = {
    "files": lambda path: os.path.isfile(path) or not os.path.basename(path).startswith(_checkpoints.LIST) and "." in os.path.basename(path),
    "list": lambda path: os.path.basename(path).startswith(_checkpoints.LIST),
    "directories": lambda path: os.path.basename(path).startswith(_checkpoints.NEW),
    "parent": lambda path: os.path.basename(path) == "checkpoints",
}


class Crashes(unittest.TestCase):
    def recorded(self, kind, root, steps, first_mark=1):
        environment = {**os.environ, "PYTHONPATH": os.path.join(HERE, "..", "..", "python"), "FIRST_MARK": str(first_mark), "OMP_NUM_THREADS": "1",
                       "PYTHONDONTWRITEBYTECODE": "1"}
        return crash_states.record([sys.executable, os.path.join(HERE, "python_program.py"), kind, root, *map(str, steps)], root, environment)

    def wrongs(self, recording, newest, marks_of, before=(), of_each=40, forgets=lambda path: False, keep=None):
        wrongs, count = collections.Counter(), 0
        with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for disk, promised, behind in crash_states.states(recording, SEED, of_each, forgets):
                count += 1
                place = os.path.join(scratch, "checkpoints")
                crash_states.build(disk, place)
                wrong = wrong_in(place, [*before, *promised], newest, marks_of)
                if wrong:
                    wrongs[f"{wrong}; crash behind: {behind}"] += 1
                elif keep is not None:
                    keep.append((disk, promised))
        return wrongs, count

    def try_out(self, kind, newest, marks_of):
        with tempfile.TemporaryDirectory() as scratch:
            root = os.path.join(scratch, "checkpoints")
            os.mkdir(root)
            recording = self.recorded(kind, root, STEPS)
            self.assertEqual(len([step for step in recording.steps if step[0] == "ack"]), len(STEPS))
            kept = []
            wrongs, count = self.wrongs(recording, newest, marks_of, keep=kept)
            self.assertEqual(list(wrongs), [])
            told = [f"{count} disks"]
            again = 0
            for disk, promised in random.Random(SEED).sample(kept, 2):
                crash_states.build(disk, root)
                found = newest(root)
                start = found[0] if found else 0
                second = self.recorded(kind, root, [start + 10, start + 10, start + 20], first_mark=100)
                wrongs, seen = self.wrongs(second, newest, marks_of, promised, of_each=10)
                self.assertEqual(list(wrongs), [], f"behind {promised}")
                again += seen
            told.append(f"{again} of a second crash")
            for name, forgets in KINDS.items():
                wrongs, count = self.wrongs(recording, newest, marks_of, of_each=10, forgets=forgets)
                self.assertTrue(wrongs, f"nothing is lost without the sync of {name}")
                told.append(f"without the sync of {name} {sum(wrongs.values())} of {count} wrong")
            print(f"{kind}: {', '.join(told)}", flush=True)

    def test_dcp(self):
        self.try_out("dcp", muster.dcp.newest, dcp_marks)

    def test_dcp_async(self):
        self.try_out("dcp async", muster.dcp.newest, dcp_marks)

    def test_accelerate(self):
        self.try_out("accelerate", muster.accelerate.newest, accelerate_marks)


if __name__ == "__main__":
    print(f"seed {SEED}")
    unittest.main(argv=[sys.argv[0], *(f"Crashes.{name}" for name in sys.argv[1:])], verbosity=2)
