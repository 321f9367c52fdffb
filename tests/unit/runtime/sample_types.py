"""What a compiler says of samples that a dataset may not have: one error, which tells what is right.

    sample_types.py SOURCE COMPILER FLAGS...
"""

import subprocess
import sys
import tempfile
from pathlib import Path

# By the number of the sample in SOURCE; empty: it compiles.
EXPECTED = [
    "",
    "the fields of this sample are not all tensors",
    "this type cannot be a sample or a part of one",
    "this type cannot be a sample or a part of one",
    "the struct that BatchOf names must have, field by field",
    "this type cannot be a sample or a part of one",
]


def main(source, *command):
    def compiled(*arguments):
        return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)

    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        # The compiler reads what all samples include once, since that takes most of the time.
        header = Path(folder, "dataset.h")
        header.write_text("#include <muster/data/dataset.h>\n")
        run = compiled("-x", "c++-header", str(header), "-o", f"{header}.gch")
        if run.returncode != 0:
            sys.exit(f"what all samples include does not compile:\n{run.stderr}")
        for number, expected in enumerate(EXPECTED):
            run = compiled("-include", str(header), "-fsyntax-only", f"-DSAMPLE={number}", source)
            errors = [line for line in run.stderr.splitlines() if " error: " in line]
            right = len(errors) == 1 and expected in errors[0] if expected else run.returncode == 0
            if not right:
                print(f"sample {number}: expected '{expected}', exit code {run.returncode} and {len(errors)} errors:\n{run.stderr}")
            failures += not right
    return 1 if failures else 0


sys.exit(main(*sys.argv[1:]))
