"""usage: main_test.py LAUNCH [TEST...]: `python -m muster` in environments that have `launch`, and in one that has not."""

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import unittest

MODULE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python", "muster")
LAUNCH = ""
LIMIT = 60  # seconds, for each command


class Main(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = scratch.name
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": self.scratch, "MUSTER_LOG_DIR": os.path.join(self.scratch, "logs"), "PYTHONDONTWRITEBYTECODE": "1"}

    def environment_with(self, name, launch=None, folder="bin", installed=True):
        """Makes an environment as the wheel's installation leaves it, or one without its files; returns its Python."""
        root = os.path.join(self.scratch, name)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", root], check=True)
        packages = sysconfig.get_path("purelib", vars={"base": root, "platbase": root}, scheme="posix_prefix")
        if launch:
            os.makedirs(os.path.join(root, folder), exist_ok=True)
            os.symlink(launch, os.path.join(root, folder, "launch"))
        if installed:
            shutil.copytree(MODULE, os.path.join(packages, "muster"))
            information = os.path.join(packages, "muster_launch-1.dist-info")
            os.mkdir(information)
            self.write(os.path.join(information, "METADATA"), "Metadata-Version: 2.1\nName: muster-launch\nVersion: 1\n")
            place = os.path.relpath(os.path.join(root, folder, "launch"), packages)
            completion = os.path.relpath(os.path.join(root, "share", "completions", "launch"), packages)
            self.write(os.path.join(information, "RECORD"), f"{completion},,\n{place},,\nmuster/__init__.py,,\n")
        return os.path.join(root, "bin", "python")

    def write(self, path, text):
        with open(path, "w") as file:
            file.write(text)
        return path

    def script(self, text):
        return self.write(os.path.join(self.scratch, "train.py"), text)

    def muster(self, python, *words, **variables):
        return subprocess.run([python, "-m", "muster", *words], env={**self.environment, **variables}, cwd=self.scratch, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=LIMIT)

    def test_runs_a_script_with_this_python_and_its_module(self):
        python = self.environment_with("env", LAUNCH)
        script = self.script("import os, sys, muster\nprint(sys.executable, os.path.realpath(muster.__file__))")
        run = self.muster(python, "--gpus-per-node", "2", script)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stdout.count(f"{python} {os.path.realpath(self.scratch)}/env/lib/"), 2, run.stdout)

    def test_runs_a_script_with_the_python_that_the_environment_names(self):
        python, other = self.environment_with("env", LAUNCH), self.environment_with("other", installed=False)
        run = self.muster(python, self.script("import sys\nprint(sys.executable)"), PYTHON_EXEC=other)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(other, run.stdout)

    def test_has_the_exit_codes_of_launch(self):
        python = self.environment_with("env", LAUNCH)
        self.assertEqual(self.muster(python, "--max-restarts", "0", self.script("raise SystemExit(3)")).returncode, 3)
        wrong = self.muster(python, "--no-such-flag", "train.py")
        self.assertEqual((wrong.returncode, wrong.stderr.count("\n")), (2, 1), wrong.stderr)
        self.assertTrue(wrong.stderr.startswith("launch: "), wrong.stderr)

    def test_is_the_process_launch_so_signals_are_its_own(self):
        python = self.environment_with("env", LAUNCH)
        script = self.script("import time\nprint('begun', flush=True)\ntime.sleep(60)")
        with subprocess.Popen([python, "-m", "muster", script], env=self.environment, cwd=self.scratch, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
            self.assertIn("begun", run.stdout.readline())
            self.assertEqual(os.readlink(f"/proc/{run.pid}/exe"), os.path.realpath(LAUNCH))
            run.send_signal(signal.SIGTERM)
            _, said = run.communicate(timeout=LIMIT)
        self.assertEqual(run.returncode, 128 + signal.SIGTERM, said)

    def test_passes_all_words_and_no_ignored_signal(self):
        shell = self.write(os.path.join(self.scratch, "shell"), "#!/bin/sh\nprintf '<%s>' \"$@\"\ngrep SigIgn /proc/self/status\n")
        os.chmod(shell, 0o755)
        run = self.muster(self.environment_with("env", shell), "--", "a b", "", "*")
        self.assertEqual(run.stdout.split(), ["<--><a", "b><><*>SigIgn:", "0000000000000000"])

    def test_finds_launch_where_the_package_put_it_or_else_among_the_scripts(self):
        elsewhere = self.environment_with("elsewhere", LAUNCH, folder="of/package")
        without_package = self.environment_with("without_package", LAUNCH, installed=False)
        for python, variables in ((elsewhere, {}), (without_package, {"PYTHONPATH": os.path.dirname(MODULE)})):
            run = self.muster(python, "--version", **variables)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn("launch", run.stdout)

    def test_says_what_to_install(self):
        python = self.environment_with("env", installed=False)
        run = self.muster(python, "train.py", PYTHONPATH=os.path.dirname(MODULE))
        expected = f"muster: launch is not installed in {self.scratch}/env: install the wheel muster-launch there\n"
        self.assertEqual((run.returncode, run.stdout, run.stderr), (127, "", expected))

    def test_works_in_a_job_with_the_agents_copy_of_the_module(self):
        script = self.script("import subprocess, sys\nprint(subprocess.run([sys.executable, '-m', 'muster', '--version'], stdout=1, stderr=1).returncode)")
        installed = self.muster(self.environment_with("env", LAUNCH), script)
        self.assertEqual(installed.returncode, 0, installed.stderr)
        self.assertRegex(installed.stdout, r"launch .*\n(.*: )?0\n")
        bare = self.environment_with("bare", installed=False)
        carried = self.muster(os.path.join(self.scratch, "env", "bin", "python"), script, PYTHON_EXEC=bare)
        self.assertIn(f"muster: launch is not installed in {self.scratch}/bare: ", carried.stdout)
        self.assertRegex(carried.stdout, r"127\n$")


if __name__ == "__main__":
    LAUNCH = os.path.abspath(sys.argv[1])
    unittest.main(argv=[sys.argv[0], *(f"Main.{name}" for name in sys.argv[2:])], verbosity=2)
