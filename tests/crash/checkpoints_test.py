"""usage: checkpoints_test.py LAUNCH TRAIN_CHAR_LM [TEST...]: disks that a crash of a training in C++, of a launch or of `launch ckpt` may leave.

On each disk all checkpoints must be whole. The next launch must get a new attempt number, and resume from the last checkpoint that was reported
as committed, or a newer one. A command's answers must still hold. Some disks are left after kills, some by a second crash of a resumed run.
With any one listed kind of sync left out, some disk must break this, which shows that each kind is needed. Only the sync of a claim's content is not
listed: that content only names the claim's owner.
"""

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import crash_states

SEED = int(os.environ.get("SEED", "1"))
HIDDEN = ("MUSTER_", "PET_", "SLURM_")
TEXT = "The quick brown fox jumps over the lazy dog.\n" * 20
TRAINING = "--context 8 --width 4 --heads 1 --layers 1 --batch-size 1 --accumulate 1 --checkpoint-every 1 --generate 0 --num-workers 0"
DIRECTORIES = ("checkpoints", "imported")
RANKS = 2


def promises_in(data):
    """The promises in a write; a rank's report of a commit to its agent is one, too."""
    message = re.search(rb'"step":(\d+).*"type":"committed"', data)
    return [f"ack committed {message.group(1).decode()}"] if message else crash_states.acks(data)


def base(path):
    return os.path.basename(path)


KINDS = {
    "a rank's file": lambda path: base(path).startswith("rank-"),
    "the manifest": lambda path: base(path).startswith("manifest.json"),
    "a step's directory": lambda path: base(path).startswith("step-"),
    "the checkpoint directory": lambda path: base(path) == "checkpoints",
    "its parent": lambda path: base(path) == "root",
    "attempts/": lambda path: base(path) == "attempts",
    "an attempt's file": lambda path: ".json.tmp" in base(path) and base(os.path.dirname(path)) == "attempts",
    "the exported file": lambda path: base(path).startswith("model.safetensors"),
    "the directory of an import": lambda path: base(path) == "imported",
    "its directory": lambda path: base(path) == "out",
}


def numbers(promised, what):
    return [int(line.split()[2]) for line in promised if line.startswith(f"ack {what} ")]


def promised_by(recording):
    return numbers([what for kind, what, *_ in recording.steps if kind == "ack"], "committed")


def committed_in(recording):
    """The files of each checkpoint of a recording: those in its directory when the manifest appeared."""
    disk, held = recording.start.copy(), {}
    for change in [None, *(what[0] for kind, *what in recording.steps if kind == "change")]:
        if change:
            change.apply(disk)
        for directory in DIRECTORIES:
            for name, inode in disk.inodes[disk.inodes[0].get(directory, 0)].items():
                files = disk.inodes[inode]
                if name.startswith("step-") and "manifest.json" in files and (directory, name) not in held:
                    held[directory, name] = {file: disk.inodes[child] for file, child in files.items() if file.endswith((".safetensors", ".json"))}
    return held


class Crashes(unittest.TestCase):
    def setUp(self):
        # In memory, where the syncs of the many launches take no time.
        scratch = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.addCleanup(scratch.cleanup)
        self.scratch = scratch.name
        self.root = os.path.join(self.scratch, "root")
        self.checkpoints = os.path.join(self.root, "checkpoints")
        os.mkdir(self.root)
        with open(os.path.join(self.scratch, "text"), "w") as file:
            file.write(TEXT)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(HIDDEN)}
        self.environment.update(XDG_STATE_HOME=self.scratch, OMP_NUM_THREADS="1")

    def launch(self, *words):
        return subprocess.run([LAUNCH, *words], env=self.environment, capture_output=True, text=True, check=False)

    def recorded(self, script, behind=None):
        return crash_states.record(["sh", "-ec", script], self.root, self.environment, promises_in, behind)

    def trained(self, steps, behind=None):
        flags = f"--text {self.scratch}/text --token-dir {self.scratch} --max-steps {steps} {TRAINING}"
        return self.recorded(f"{LAUNCH} --quiet --device cpu --gpus-per-node {RANKS} --checkpoint-dir {self.checkpoints} {TRAIN} {flags}", behind)

    def killed_before_the_last_sync(self):
        """A training whose ranks are killed between the rename that commits step 3 and the syncs after it."""
        recording = self.trained(3)
        killed = recording.killed_behind(self.commit_of(3, recording) + 1)
        crash_states.build(killed.now, self.root)
        return killed

    def commit_of(self, step, recording):
        """The number of the recording's step that renames the manifest."""
        name = f" to {self.checkpoints}/step-{step}.attempt-1/manifest.json"
        return next(number for number, (kind, what, *_) in enumerate(recording.steps) if kind == "change" and what.text.endswith(name))

    def wrong_in(self, place, promised, held, directory="checkpoints"):
        """An error of a checkpoint directory; "" if all is right."""
        path = os.path.join(place, directory)
        verified = self.launch("ckpt", "verify", path, "--json")
        if verified.returncode != 0 and not re.search("has no checkpoint$|No such file or directory$", verified.stderr):
            return f"ckpt verify: {verified.stdout}{verified.stderr}"
        names = [f"step-{each['step']}.attempt-{each['attempt']}" for each in json.loads(verified.stdout or "[]")]
        for name in names:
            if (directory, name) not in held:
                return f"{name} was never committed"
            for file, content in held[directory, name].items():
                with open(os.path.join(path, name, file), "rb") as there:
                    if there.read() != content:
                        return f"{name}/{file} is another one than was committed"
        if "ack pruned" in promised and len(names) != 1:
            return f"there are {names} behind the end of prune"
        begun = self.launch("--device", "cpu", "--checkpoint-dir", path, "sh", "-c", "echo attempt $MUSTER_ATTEMPT resumes ${MUSTER_RESUME_STEP:-0}")
        said = re.search(r"attempt (\d+) resumes (\d+)", begun.stdout)
        if begun.returncode != 0 or not said:
            return f"the next launch: {begun.stderr}"
        attempt, step = map(int, said.groups())
        if attempt <= max([*numbers(promised, "attempt"), *(int(name.rsplit("-", 1)[1]) for name in names)], default=0):
            return f"a second attempt {attempt} begins"
        last = max(numbers(promised, "committed" if directory == "checkpoints" else directory), default=0)
        return f"step {step} is resumed from, and {last} was promised" if step < last else ""

    def wrong_on(self, disk, promised, held, also):
        place = os.path.join(self.scratch, "disk")
        crash_states.build(disk, place)
        return also and also(place, promised, held) or self.wrong_in(place, promised, held)

    def all_right(self, recording, before=(), also=None, keep=None, **which):
        """Returns the number of disks; fails if any is wrong."""
        count, wrongs, held = 0, [], committed_in(recording)
        for disk, promised, behind in crash_states.states(recording, SEED, **which):
            count += 1
            promised = [*before, *promised]
            wrong = self.wrong_on(disk, promised, held, also)
            if wrong:
                wrongs.append(f"{wrong}; crash behind: {behind}")
            elif keep is not None:
                keep.append((disk, promised))
        self.assertEqual(wrongs, [])
        return count

    def needed(self, recording, kinds, told, also=None, **which):
        """For each kind of sync, counts the disks that are possible only without it, up to the first wrong one."""
        said, held = [], committed_in(recording)
        for kind in kinds:
            disks = list(crash_states.states(recording, SEED, told=set(told), forgets=KINDS[kind], **which))
            random.Random(SEED).shuffle(disks)
            for count, (disk, promised, _) in enumerate(disks, 1):
                if self.wrong_on(disk, promised, held, also):
                    break
            else:
                self.fail(f"nothing is lost without the sync of {kind}: {len(disks)} disks")
            said.append(f"without the sync of {kind} disk {count} of {len(disks)} more is wrong")
        return said

    def try_out(self, name, recording, kinds, of_each, also=None, first=0):
        told = set()
        count = self.all_right(recording, also=also, of_each=of_each, first=first, told=told)
        print(f"{name}: {count} disks", *self.needed(recording, kinds, told, also, of_each=of_each, first=first), sep=", ", flush=True)

    def test_commit(self):
        recording, kept, told = self.trained(4), [], set()
        self.assertEqual(promised_by(recording), [1, 2, 3, 4])
        self.assertTrue(any(kind == "change" and what.text.startswith("remove") and "/step-1." in what.text for kind, what, *_ in recording.steps))
        said = [f"{self.all_right(recording, of_each=2, told=told, keep=kept)} disks"]
        chance, again = random.Random(SEED), 0
        for disk, promised in chance.sample(kept, 2):
            crash_states.build(disk, self.root)
            again += self.all_right(self.trained(max(numbers(promised, "committed"), default=0) + 2), promised, of_each=0)
        said.append(f"{again} of a second crash")
        again = 0
        for count in (self.commit_of(3, recording) + 1, chance.randrange(len(recording.steps))):
            killed = recording.killed_behind(count)
            crash_states.build(killed.now, self.root)
            again += self.all_right(self.trained(max(promised_by(killed), default=0) + 2, killed), first=count, of_each=0)
        said.append(f"{again} of a crash behind kills")
        kinds = ["a rank's file", "the manifest", "a step's directory", "the checkpoint directory", "its parent", "attempts/", "an attempt's file"]
        print("commit:", ", ".join(said + self.needed(recording, kinds, told, of_each=0)), flush=True)

    def two_launches(self):
        return f"{LAUNCH} --quiet --device cpu --checkpoint-dir {self.checkpoints} sh -c 'echo ack attempt $MUSTER_ATTEMPT';" * 2

    def test_claim(self):
        kinds = ["the checkpoint directory", "its parent", "attempts/", "an attempt's file"]
        self.try_out("claims of a new directory", self.recorded(self.two_launches()), kinds, 40)

    def test_claim_behind_a_kill(self):
        killed = self.killed_before_the_last_sync()
        self.try_out("claims behind a kill", self.recorded(self.two_launches(), killed), ["attempts/", "an attempt's file"], 10, first=len(killed.steps))

    def test_prune(self):
        killed = self.killed_before_the_last_sync()
        recording = self.recorded(f"{LAUNCH} ckpt prune {self.checkpoints} --keep 1 --yes && echo ack pruned", killed)
        self.try_out("prune behind a kill", recording, ["a step's directory", "the checkpoint directory"], 40, first=len(killed.steps))

    def test_pin(self):
        def is_as_promised(place, promised, _):
            said = self.launch("ckpt", "ls", os.path.join(place, "checkpoints"), "--json")
            pinned = [each["step"] for each in json.loads(said.stdout) if each["pinned"]]
            wanted = {"ack pinned": [3], "ack unpinned": []}.get(promised[-1], pinned)
            return f"{promised[-1]}, and {pinned} are pinned" if pinned != wanted else ""

        killed = self.killed_before_the_last_sync()
        pinned = self.recorded(f"{LAUNCH} ckpt pin {self.checkpoints} && echo ack pinned", killed)
        kinds = ["a step's directory", "the checkpoint directory"]
        self.try_out("pin behind a kill", pinned, kinds, 40, is_as_promised, first=len(killed.steps))
        unpinned = self.recorded(f"echo ack unpin; {LAUNCH} ckpt unpin {self.checkpoints} && echo ack unpinned", pinned)
        self.try_out("unpin", unpinned, kinds[:1], 40, is_as_promised, first=len(pinned.steps) + 1)

    def exported(self):
        """A directory with two checkpoints beside a file with the newest one's model: the command, its recording and the file's bytes."""
        self.trained(2)
        os.mkdir(os.path.join(self.root, "out"))
        path = os.path.join(self.root, "out", "model.safetensors")
        recording = self.recorded(f"{LAUNCH} ckpt export {self.checkpoints} {path} && echo ack exported")
        with open(path, "rb") as file:
            return path, recording, file.read()

    def test_export(self):
        _, recording, whole = self.exported()

        def is_whole(place, promised, _):
            path = os.path.join(place, "out", "model.safetensors")
            if not os.path.exists(path):
                again = self.launch("ckpt", "export", os.path.join(place, "checkpoints"), path)
                if "ack exported" in promised or again.returncode != 0:
                    return f"the exported file is not there: {again.stderr}"
            with open(path, "rb") as file:
                return "" if file.read() == whole else "the exported file is torn"

        self.try_out("export", recording, ["the exported file", "its directory"], 4, is_whole)

    def test_import(self):
        path, _, _ = self.exported()
        directory = os.path.join(self.root, "imported")
        recording = self.recorded(f"{LAUNCH} ckpt import {directory} {path} --step 7 && echo ack imported 7")

        def is_whole(place, promised, held):
            wrong = self.wrong_in(place, promised, held, "imported")
            there = os.path.join(place, "imported")
            if wrong or self.launch("ckpt", "ls", there).returncode == 0:
                return wrong
            again = self.launch("ckpt", "import", there, os.path.join(place, "out", "model.safetensors"))
            return f"no second import: {again.stderr}" if again.returncode != 0 else ""

        kinds = ["a rank's file", "the manifest", "a step's directory", "the directory of an import", "its parent", "attempts/", "an attempt's file"]
        self.try_out("import", recording, kinds, 2, is_whole)


if __name__ == "__main__":
    LAUNCH, TRAIN = map(os.path.abspath, sys.argv[1:3])
    print(f"seed {SEED}")
    unittest.main(argv=[sys.argv[0], *(f"Crashes.{name}" for name in sys.argv[3:])], verbosity=2)
