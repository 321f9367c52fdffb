"""usage: types_test.py: compares the stubs of `muster` with its code, by mypy.stubtest, and checks typed_uses.py against the stubs."""

import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SETTINGS = os.path.join(HERE, "mypy.ini")
CHECKS = (
    ["mypy.stubtest", "--mypy-config-file", SETTINGS, "muster"],
    ["mypy", "--config-file", SETTINGS, os.path.join(HERE, "typed_uses.py")],
)


def main():
    environment = {**os.environ, "PYTHONPATH": os.path.join(HERE, "..", "..", "python")}
    with tempfile.TemporaryDirectory() as scratch:
        # Each takes a processor for a minute.
        running = [subprocess.Popen([sys.executable, "-B", "-m", *words], env=environment, cwd=scratch) for words in CHECKS]
        return max(each.wait() for each in running)


if __name__ == "__main__":
    sys.exit(main())
