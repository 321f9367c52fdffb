"""Compares what `launch` answers to wrong inputs with tests/golden/wrong_inputs.txt, which people read in review.

Usage: wrong_inputs_test.py LAUNCH GOLDEN [--write]

Each line of GOLDEN that begins with `$ ` is a line for the shell; the lines below it are what it printed, and its exit code if that is not 2. --write
keeps these command lines and writes their answers anew. Every answer is one line. No program may start: the one that is there prints `started`.
"""

import difflib
import os
import re
import stat
import subprocess
import sys
import tempfile

PROGRAM = "#!/bin/sh\necho started\n"


def answer(line, launch):
    """Runs the line in a directory of its own. Returns (exit code, what it printed)."""
    with tempfile.TemporaryDirectory() as folder:
        here = os.path.join(folder, "here")
        os.makedirs(here)
        for name, mode in (("train", 0o755), ("train.py", 0o644), ("data.bin", 0o644)):
            path = os.path.join(here, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(PROGRAM if mode & stat.S_IXUSR else "")
            os.chmod(path, mode)
        path = f"{os.path.dirname(launch)}:/usr/bin:/bin"
        run = subprocess.run(["sh", "-c", line], cwd=here, env={"PATH": path, "HOME": folder, "LC_ALL": "C"}, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
        return run.returncode, run.stdout.replace(here, "HERE").replace(folder, "HOME")


def answered(golden, launch):
    """The golden text with the answers of today, and what is wrong with any of them."""
    begin, *blocks = re.split(r"^\$ ", golden, flags=re.MULTILINE)
    text, wrong = begin, []
    for block in blocks:
        line, _, rest = block.partition("\n")
        code, printed = answer(line, launch)
        if printed.count("\n") != 1 or "started" in printed or code == 0:
            wrong.append(f"{line}\n  must be refused with one line, and not with exit code {code} and\n{printed}")
        heading = "".join(re.findall(r"^#[^\n]*\n", rest, flags=re.MULTILINE))
        text += f"$ {line}\n{printed}" + ("" if code == 2 else f"exit {code}\n") + "\n" + heading
    return text.rstrip("\n") + "\n", wrong


def main():
    launch, path = sys.argv[1], sys.argv[2]
    with open(path, encoding="utf-8") as file:
        golden = file.read()
    text, wrong = answered(golden, os.path.abspath(launch))
    if "--write" in sys.argv:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    elif text != golden:
        sys.stdout.writelines(difflib.unified_diff(golden.splitlines(True), text.splitlines(True), path, "answers of today"))
        wrong.append(f"if these are better: {' '.join(sys.argv)} --write")
    sys.exit("\n".join(wrong) if wrong else 0)


main()
