#!/usr/bin/env python3
"""The table of `./dev test torch`: the results of the runtime's tests with each release of torch.

    tools/torch_table.py                                   prints the table
    tools/torch_table.py --has VERSION                     exits with 0 if VERSION passed at this commit, with 1 otherwise
    tools/torch_table.py --add VERSION [BUILD FOLDER ...]  writes VERSION's row: from the results.xml that ctest left in each FOLDER of
                                                           BUILD; without BUILD the row says that this version does not build

build/torch_versions.json keeps the rows, so that an interrupted run can continue.
"""

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROWS = ROOT / "build/torch_versions.json"
# The columns of the table, and the names of their tests. All other tests count in the first column.
PYTHON_CLIENTS = ("store_contract", "torchrun_contract", "python_unchanged", "python_warm")
COLUMNS = ("tests", "parity", "Python clients")


def column_of(test):
    if test in PYTHON_CLIENTS:
        return "Python clients"
    return "parity" if test.endswith("_parity_test") else "tests"


def commit():
    described = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True, check=True)
    return described.stdout.strip()


def read_rows():
    return json.loads(ROWS.read_text()) if ROWS.exists() else {}


def count_of(results):
    """{column: [passed, run]}, and the names of the tests that failed. A skipped test does not count; one that could not start has failed."""
    counts, failed = {column: [0, 0] for column in COLUMNS}, []
    for result in results:
        for case in ElementTree.parse(result).getroot().iter("testcase"):
            skipped = case.find("skipped")
            if skipped is not None and skipped.get("message", "").startswith(("SKIP_", "Disabled")):
                continue
            count = counts[column_of(case.get("name"))]
            count[1] += 1
            if case.get("status") == "run":
                count[0] += 1
            else:
                failed.append(case.get("name"))
    return counts, failed


def make_row(build, folders):
    if build is None:
        return {"commit": commit(), "built": False, "failed": []}
    counts, failed = count_of(Path(build) / folder / "results.xml" for folder in folders)
    return {"commit": commit(), "built": True, "counts": counts, "failed": failed}


def passed(row):
    return row["built"] and not row["failed"] and row["counts"]["tests"][1] > 0


def print_table(rows):
    print(f"| torch | built | {' | '.join(COLUMNS)} | commit | failed |")
    print("| --- " * (len(COLUMNS) + 4) + "|")
    for version in sorted(rows, key=lambda text: [int(number) for number in text.split(".")]):
        row = rows[version]
        cells = ["{} of {}".format(*row["counts"][column]) for column in COLUMNS] if row["built"] else ["-"] * len(COLUMNS)
        print(f"| {version} | {'yes' if row['built'] else 'no'} | {' | '.join(cells)} | {row['commit']} | {', '.join(row['failed']) or '-'} |")


def main(arguments):
    rows = read_rows()
    if arguments[:1] == ["--has"]:
        row = rows.get(arguments[1])
        # The commit's name is the same for any two trees with uncommitted changes.
        return 0 if row and row["commit"] == commit() and not commit().endswith("-dirty") and passed(row) else 1
    if arguments[:1] == ["--add"]:
        row = make_row(arguments[2] if len(arguments) > 2 else None, arguments[3:])
        rows[arguments[1]] = row
        ROWS.parent.mkdir(exist_ok=True)
        ROWS.write_text(json.dumps(rows, indent=1) + "\n")
        return 0 if passed(row) else 1
    print_table(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
