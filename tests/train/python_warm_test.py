"""Python ranks forked from one interpreter with torch imported: the same results as executed ranks, a restart, and a fallback with a message.

usage: python_warm_test.py LAUNCH   (run by the Python that has torch)
"""
import gzip
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

LAUNCH = sys.argv.pop(1)
TRAINING = pathlib.Path(__file__).with_name("python_ddp_script.py")
# Prints what a rank must have of its own, and where it believes to be.
SHOW = """
import os, random, sys
import numpy, torch
print("draws", random.random(), numpy.random.rand(), torch.rand(1).item())
print("place", sys.argv[1:], __name__, os.path.basename(__file__), os.path.basename(sys.path[0]), os.environ["RANK"],
      os.environ.get("OPENBLAS_NUM_THREADS"), torch.get_num_threads())
"""

# Leaves work for its end, and files that only the end closes.
LEAVE = """
import atexit, gzip, sys, threading, time, zipfile
import torch
import left_open

def path(name):
    return sys.argv[1] + "/" + name

def note(text):
    with open(path("notes"), "a") as file:
        file.write(text + "\\n")

def late():
    time.sleep(0.3)
    note("thread")

atexit.register(note, "atexit")
threading.Thread(target=late).start()
text = open(path("text"), "w")
text.write("text")
packed = gzip.open(path("packed.gz"), "wt")
packed.write("packed")
archive = zipfile.ZipFile(path("archive.zip"), "w")
archive.writestr("name", "archived")
left_open.packed = gzip.open(path("of_module.gz"), "wb")
left_open.packed.write(b"of a module")
torch.kept_by_torch = open(path("kept"), "w")
torch.kept_by_torch.write("kept")
print("not flushed", end="")
sys.exit(3)
"""


class PythonWarm(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(prefix="muster-test-")
        self.addCleanup(self.directory.cleanup)
        self.path = pathlib.Path(self.directory.name)

    def launch(self, name, *words, flags=("--warm",), ranks="2", **variables):
        """Ranks on one node; returns the process and what the agent logged."""
        logs = self.path / (name + "-logs")
        inherited = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
        environment = {**inherited, "PYTHON_EXEC": sys.executable, "OMP_NUM_THREADS": "1", **variables}
        result = subprocess.run([LAUNCH, "--gpus-per-node", ranks, "--device", "cpu", "--log-dir", logs, *flags, *words],
                                env=environment, capture_output=True, text=True, timeout=120)
        return result, next(logs.glob("*/agent.node0.log")).read_text()

    def write(self, name, text):
        (self.path / name).write_text(text)
        return self.path / name

    def test_a_killed_rank_is_forked_again_and_the_parameters_are_those_of_executed_ranks(self):
        cold, _ = self.launch("cold", TRAINING, self.path / "cold.pt", flags=("--no-warm",))
        hit, log = self.launch("hit", TRAINING, self.path / "hit.pt", "5", flags=("--warm", "--max-restarts", "1"))
        self.assertEqual(hit.returncode, 0, hit.stderr)
        self.assertEqual(log.count("2 of 2 workers were forked"), 2, log)
        self.assertIn("rank 1 restart 1 starts at step 5", hit.stdout)
        hashes = [sorted(re.findall(r"rank \d parameters (\w+)", run.stdout)) for run in (cold, hit)]
        self.assertEqual(len(hashes[0]), 2, cold.stdout + cold.stderr)
        self.assertEqual(hashes[1], hashes[0])

    def test_ranks_draw_different_numbers_and_see_what_an_executed_script_sees(self):
        script = self.write("show.py", SHOW)
        warm, log = self.launch("warm", script, "a", "b")
        self.assertEqual(warm.returncode, 0, warm.stderr)
        self.assertIn("2 of 2 workers were forked", log)
        draws = [line.split()[2:] for line in warm.stdout.splitlines() if " draws " in line]
        self.assertEqual(len(draws), 2, warm.stdout)
        for mine, other in zip(*draws):
            self.assertNotEqual(mine, other)
        for rank in ("0", "1"):
            self.assertIn(f"node0:{rank}: place ['a', 'b'] __main__ show.py {self.path.name} {rank} None 1", warm.stdout)

    def test_a_module_is_forked_too(self):
        self.write("shown.py", SHOW)
        result, log = self.launch("module", "shown", "x", flags=("--warm", "-m"), PYTHONPATH=str(self.path))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("2 of 2 workers were forked", log)
        self.assertIn("place ['x'] __main__ shown.py", result.stdout)

    def test_the_trials_of_a_sweep_are_forked_from_one_interpreter_each_with_its_own_arguments(self):
        script = self.write("trial.py", """
import os, sys
import muster, torch
name, value = sys.argv[1:]
assert name == "--x" and value == os.environ["MUSTER_PARAM_X"], (sys.argv, os.environ["MUSTER_PARAM_X"])
muster.report("loss", float(value), 1)
""")
        sweep = self.path / "sweep"
        words = [LAUNCH, "sweep", "run", "--sweep-dir", sweep, "--space", "x=int:1:4", "--search", "grid", "--metric", "loss",
                 "--parallel", "1", "--warm", "--device", "cpu", "--", script, "--x", "{x}"]
        result = subprocess.run(words, env={**os.environ, "PYTHON_EXEC": sys.executable}, capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("4 trials, 4 finished; best: trial 0, loss=1", result.stderr)
        log = "".join(file.read_text() for file in sweep.glob("trials/*/*/agent.node0.log"))
        self.assertEqual(log.count("1 of 1 workers were forked"), 4, log)
        self.assertEqual(log.count("loads the program"), 1, log)

    def leave(self, how, name, script, *arguments):
        """Starts a rank, executed or forked, that ends by itself."""
        result, log = self.launch(name + how, self.write(name + ".py", script), *arguments, ranks="1", flags=(how, "--max-restarts", "0"))
        self.assertEqual("1 of 1 workers were forked" in log, how == "--warm", log)
        return result

    def test_the_end_of_a_rank_runs_and_closes_everything(self):
        self.write("left_open.py", "def f(): pass\n")
        for how in ("--no-warm", "--warm"):
            folder = self.path / how
            folder.mkdir()
            result = self.leave(how, "leave", LEAVE, folder)
            self.assertEqual(result.returncode, 3, result.stderr)
            self.assertIn("node0:0: not flushed", result.stdout)
            self.assertEqual((folder / "notes").read_text(), "thread\natexit\n")
            self.assertEqual((folder / "text").read_text(), "text")
            self.assertEqual((folder / "kept").read_text(), "kept")
            self.assertEqual(gzip.decompress((folder / "packed.gz").read_bytes()), b"packed")
            self.assertEqual(gzip.decompress((folder / "of_module.gz").read_bytes()), b"of a module")
            with zipfile.ZipFile(folder / "archive.zip") as archive:
                self.assertEqual(archive.read("name"), b"archived")
            self.assertNotIn("Traceback", result.stderr)

    def test_a_rank_that_cannot_write_its_last_output_fails_as_python_does(self):
        script = "import os, sys\nsys.stdout = open(1, 'w')\nprint('x')\nos.close(1)\n"
        for how in ("--no-warm", "--warm"):
            self.assertEqual(self.leave(how, "closed", script).returncode, 120)

    def test_what_an_extension_registered_for_the_interpreters_end_is_called(self):
        script = "import ctypes\nctypes.pythonapi.Py_AtExit(ctypes.cast(ctypes.CDLL(None).abort, ctypes.c_void_p))\n"
        for how in ("--no-warm", "--warm"):
            self.assertIn("SIGABRT", self.leave(how, "aborts", script).stderr)

    def test_an_interpreter_with_threads_is_not_forked_and_says_so(self):
        if os.cpu_count() < 2:
            self.skipTest("numpy starts no threads on one core")
        result, log = self.launch("threads", self.write("show.py", SHOW), OPENBLAS_NUM_THREADS="2")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("node0 executes its ranks instead of forking them: it has 2 threads", result.stderr)
        self.assertNotIn("were forked", log)


if __name__ == "__main__":
    unittest.main()
