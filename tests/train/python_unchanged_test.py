"""A script written for torchrun runs unchanged under launch, restarts included.

usage: python_unchanged_test.py LAUNCH   (run by the Python that has torch)
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

LAUNCH = sys.argv.pop(1)
SCRIPT = str(pathlib.Path(__file__).with_name("python_ddp_script.py"))
STORE_SCRIPT = str(pathlib.Path(__file__).with_name("python_store_script.py"))


class PythonUnchanged(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(prefix="muster-test-")
        self.addCleanup(self.directory.cleanup)
        self.path = pathlib.Path(self.directory.name)

    def launch(self, name, *arguments, flags=()):
        """Runs the script on 2 nodes x 1 rank; returns the process, its ranks' hashes, its report."""
        logs = self.path / (name + "-logs")
        environment = dict(os.environ, PYTHON_EXEC=sys.executable, OMP_NUM_THREADS="1")
        result = subprocess.run(
            [LAUNCH, "--nodes", "2", "--gpus-per-node", "1", "--device", "cpu", "--log-dir", logs, *flags, SCRIPT,
             self.path / (name + ".pt"), *arguments], env=environment, capture_output=True, text=True, timeout=120)
        hashes = re.findall(r"rank \d parameters (\w+)", result.stdout)
        (report,) = logs.glob("*/report.json")
        return result, hashes, json.loads(report.read_text())

    def test_a_killed_rank_restarts_all_and_ends_with_the_same_parameters(self):
        calm, calm_hashes, calm_report = self.launch("calm")
        self.assertEqual(calm.returncode, 0, calm.stderr)
        self.assertEqual(len(calm_hashes), 2, calm.stdout)
        self.assertEqual(calm_report["restarts"], 0)

        hit, hit_hashes, report = self.launch("hit", "5", flags=["--max-restarts", "1"])
        self.assertEqual(hit.returncode, 0, hit.stderr)
        self.assertIn("rank 1 restart 1 starts at step 5", hit.stdout)
        self.assertEqual(report["restarts"], 1)
        self.assertEqual(report["attempts"][0]["culprit"]["rank"], 1)
        self.assertEqual(hit_hashes, calm_hashes)

    def test_a_script_uses_the_store_and_groups_as_its_torch_has_them(self):
        environment = dict(os.environ, PYTHON_EXEC=sys.executable, OMP_NUM_THREADS="1", XDG_STATE_HOME=str(self.path))
        result = subprocess.run([LAUNCH, "--nodes", "2", "--gpus-per-node", "2", "--device", "cpu", "--max-restarts", "0", STORE_SCRIPT],
                                env=environment, capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        done = dict(re.findall(r"rank (\d) did (.*)", result.stdout))
        self.assertEqual(sorted(done), ["0", "1", "2", "3"], result.stdout)
        self.assertEqual(len(set(done.values())), 1, result.stdout)
        print(f"ranks did {done['0']}", file=sys.stderr)


if __name__ == "__main__":
    unittest.main()
