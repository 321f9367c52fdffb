#!/usr/bin/env python3
"""Counts the instructions of the launcher for a job of one rank, and compares the number with the recorded one.

    launch_instructions_test.py LAUNCH

Times depend on the machine and on its load; this number does not. Callgrind counts the launcher only: it cannot follow the
agent, which starts its workers with clone(). Exits with 77 if valgrind is not installed.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

RECORDED = 2_320_000
MOST_CHANGE = 0.03


def count(launch):
    """The instructions of `launch true`, with the same surroundings on each machine."""
    with tempfile.TemporaryDirectory(prefix="muster-") as folder:
        command = ["valgrind", "--tool=callgrind", "--trace-children=no", "--callgrind-out-file=/dev/null", launch, "--quiet", "--log-dir", folder, "true"]
        run = subprocess.run(command, env={"PATH": "/usr/bin:/bin", "HOME": folder}, cwd=folder, capture_output=True, text=True, timeout=60)
    counted = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode != 0 or not counted:
        sys.exit(f"{' '.join(command)} ended with {run.returncode}:\n{run.stderr}")
    return int(counted[1])


def main(launch):
    if not shutil.which("valgrind"):
        print("skipped: valgrind is not installed")
        return 77
    counted = min(count(os.path.abspath(launch)) for _ in range(2))
    change = counted / RECORDED - 1
    print(f"launch true: {counted:,} instructions, recorded {RECORDED:,}: {100 * change:+.1f} %")
    if abs(change) <= MOST_CHANGE:
        return 0
    print(f"more than {100 * MOST_CHANGE:.0f} % apart: if the change is worth it, set RECORDED in tests/process/launch_instructions_test.py to {counted:_},"
          " and say in the commit why")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
