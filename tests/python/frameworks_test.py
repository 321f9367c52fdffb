"""usage: frameworks_test.py LAUNCH [TEST...]: the callbacks of `muster` with the real libraries, under the real launcher.

Each training runs undisturbed. In a second run one of its ranks is killed, the next attempt is given notice and leaves, and a new launch
resumes from its checkpoint. The parameters must equal the undisturbed run's, bit for bit.
"""

import glob
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from common import EVERY, KILLED_AT, NOTICED_AT, STEPS

HERE = os.path.dirname(os.path.abspath(__file__))
LAUNCH = ""
LIMIT = 120  # seconds, for each launch


class Launch:
    """A job of two ranks. launch() waits for its end, and gives notice when the training asks for it."""

    def __init__(self, script, directory, faults):
        self.directory = directory
        self.logs = tempfile.mkdtemp(dir=os.path.dirname(directory))
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHON_EXEC": sys.executable, "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        environment.update({"FAULTS": "1"} if faults else {})
        command = [LAUNCH, "--gpus-per-node", "2", "--device", "cpu", "--log-dir", self.logs, "--preemption-grace", "60", os.path.join(HERE, script), directory]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            if faults:
                self._give_notice(process)
            try:
                self.out, self.err = process.communicate(timeout=LIMIT)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGTERM)
                self.out, self.err = process.communicate(timeout=LIMIT)
        self.code = process.returncode
        with open(glob.glob(f"{self.logs}/*/report.json")[0]) as file:
            self.report = json.load(file)
        with open(glob.glob(f"{self.logs}/*/events.jsonl")[0]) as file:
            self.events = [json.loads(line) for line in file]

    def _give_notice(self, process):
        end = time.monotonic() + LIMIT
        while not os.path.exists(os.path.join(self.directory, "notice")) and process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)

    def digests(self):
        return set(re.findall(r"parameters ([0-9a-f]{64})", self.out))


class Frameworks(unittest.TestCase):
    def try_out(self, script):
        with tempfile.TemporaryDirectory() as scratch:
            directories = [os.path.join(scratch, name) for name in ("undisturbed", "disturbed")]
            for each in directories:
                os.mkdir(each)
            plain = Launch(script, directories[0], faults=False)
            said = plain.out + plain.err
            self.assertEqual(plain.code, 0, said)
            self.assertEqual(len(plain.digests()), 1, said)
            attempt = plain.report["attempts"][0]
            self.assertEqual((attempt["last_step"], attempt["committed_step"]), (STEPS, STEPS), said)

            faulty = Launch(script, directories[1], faults=True)
            said = faulty.out + faulty.err
            self.assertEqual(faulty.code, 75, said)
            killed, noticed = faulty.report["attempts"]
            self.assertEqual(killed["culprit"]["signal"], 9, said)
            self.assertIn(killed["committed_step"], (KILLED_AT // EVERY * EVERY, KILLED_AT // EVERY * EVERY - EVERY), said)
            self.assertEqual(noticed["resumed_step"], killed["committed_step"], said)
            self.assertIn(f"attempt 2 can resume from step {killed['committed_step']} (restart 1 of 3)", faulty.err)
            self.assertGreaterEqual(noticed["committed_step"], NOTICED_AT, said)
            self.assertEqual(noticed["committed_step"], noticed["last_step"], said)
            self.assertIn("saving", [event["event"] for event in faulty.events], said)

            last = Launch(script, directories[1], faults=False)
            said = last.out + last.err
            self.assertEqual(last.code, 0, said)
            self.assertEqual(last.report["attempts"][0]["resumed_step"], noticed["committed_step"], said)
            self.assertEqual(last.digests(), plain.digests(), said)

    def test_lightning(self):
        self.try_out("lightning_script.py")

    def test_transformers(self):
        self.try_out("transformers_script.py")

    def test_accelerate(self):
        self.try_out("accelerate_script.py")

    def test_dcp(self):
        self.try_out("dcp_script.py")


if __name__ == "__main__":
    LAUNCH = os.path.abspath(sys.argv[1])
    for library in ("lightning", "transformers", "accelerate", "torch"):
        assert importlib.util.find_spec(library), f"{library} is not installed"
    unittest.main(argv=[sys.argv[0], *(f"Frameworks.{name}" for name in sys.argv[2:])], verbosity=2)
