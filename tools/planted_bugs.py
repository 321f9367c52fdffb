#!/usr/bin/env python3
"""Measures whether the tests find bugs: plants some, drawn from a seed, and names the test that fails because of each.

    tools/planted_bugs.py FOLDER [--seed S] [--each N] [--only NUMBER...] [--tests R] [--json]

Clones the last commit to FOLDER/source, which must not be in /tmp, and draws N places (12) in each of common, agent, launcher and runtime. It
negates a condition or replaces an operator in it by a similar one, or leaves out a call or an assignment. One build contains all bugs; a file
selects the active one. For each bug the tests that depend on its file run, cheap ones first, until one fails; tests of containers are left out.
Prints a line for each bug and saves the results in FOLDER/results.json, so that an interrupted run can continue. Exits with 0 even if tests miss a
bug, since that is an answer, too.
"""

import argparse
import importlib.util
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("common", "agent", "launcher", "runtime")
# A program reads once which bug is active. Tests in namespaces, with another environment or another /tmp, see the file, too.
HEADER = """#pragma once
#include <stdio.h>
inline int planted_bug() {
  static const int number = [] {
    int read = 0;
    FILE* file = fopen("%s", "re");
    if (file == nullptr) return 0;
    if (fscanf(file, "%%d", &read) != 1) read = 0;
    fclose(file);
    return read;
  }();
  return number;
}
"""
# bugs_of() doubles the braces of a line before it looks for these.
CONDITION = re.compile(r"^(\s+(?:\}\} else )?(?:if|while) )\((.*)\)( .*)$")
DECLARES = re.compile(r"^(?:const )?(?:auto|[\w:]+(?:<.*>)?)\s*(?:const )?[&*]* ?[&*]*\w+ = ")
CALL = re.compile(r"^(\s+)((?!return\b|throw\b|co_\w+\b|delete\b|else\b|static_assert\b|TORCH_|[A-Z_]+\()[\w:.>\[\]*-]+\([^;]*\));$")
ASSIGNMENT = re.compile(r"^(\s+)([\w.>\[\]*-]+ [-+|]?= [^;]*);$")
NEIGHBOURS = {" < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > ", " && ": " || ", " || ": " && ", " == ": " != ", " != ": " == "}
# Labels of tests, the cheap ones first.
STAGES = ("^(logic|unit) ", "^cluster ", "^process ", "^train ", "^(hosts|chaos) ")
# A line of ctest's list of failed tests. ctest prints a test's parameter behind its name.
FAILED = re.compile(r"^\s*\d+ - (\S+).* \([A-Z][\w ]*\)$", re.MULTILINE)
# A test that takes longer counts as having found the bug.
TEST_SECONDS = 150


def say(text):
    print(f"planted_bugs: {text}", file=sys.stderr, flush=True)


def run(command, **options):
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **options)


def balanced(text):
    depth = 0
    for letter in re.sub(r"\"(\\.|[^\"\\])*\"|'(\\.|[^'\\])'", "", text):
        depth += (letter in "([{") - (letter in ")]}")
        if depth < 0:
            return False
    return depth == 0


def bugs_of(line):
    """Possible bugs in a line: pairs of the change's name and a format of the line, which takes the bug's number."""
    line = line.replace("{", "{{").replace("}", "}}")
    found = []
    condition = CONDITION.match(line)
    if condition and balanced(condition[2]) and ";" not in condition[2] and not DECLARES.match(condition[2]):
        head, test, tail = condition.groups()
        found.append(("negated", f"{head}((planted_bug() == {{0}}) != static_cast<bool>({test})){tail}"))
        for operator, neighbour in NEIGHBOURS.items():
            if operator in test:
                other = test.replace(operator, neighbour, 1)
                found.append((f"{operator.strip()} became {neighbour.strip()}",
                              f"{head}(planted_bug() == {{0}} ? static_cast<bool>({other}) : static_cast<bool>({test})){tail}"))
                break
    left_out = CALL.match(line) or ASSIGNMENT.match(line)
    if left_out and balanced(left_out[2]):
        found.append(("left out", f"{left_out[1]}planted_bug() == {{0}} ? void() : void({left_out[2]});"))
    return found


def draw(source, folder, generator, taken):
    """(file, line from 0, change, format) of a place that is not in `taken`."""
    files = sorted((source / folder).rglob("*.cc"))
    weights = [file.stat().st_size for file in files]
    while True:
        file = generator.choices(files, weights)[0]
        lines = file.read_text().split("\n")
        number = generator.randrange(len(lines))
        bugs = bugs_of(lines[number])
        if bugs and (str(file), number) not in taken:
            taken.add((str(file), number))
            return (file, number, *generator.choice(bugs))


def write(bugs, originals):
    for file, text in originals.items():
        lines = text.split("\n")
        for bug in bugs:
            if bug["path"] == str(file):
                lines[bug["line"] - 1] = bug["format"].format(bug["number"])
        changed = "\n".join(lines)
        if file.read_text() != changed:
            file.write_text(changed)


def configure(source, build, header):
    torch = re.search(r"torch_version=(\S+)", (source / "dev").read_text())[1]
    place = os.environ.get("MUSTER_TORCH_DIR") or Path.home() / f".cache/muster/torch-{torch}"
    (build / ".cmake/api/v1/query").mkdir(parents=True, exist_ok=True)
    (build / ".cmake/api/v1/query/codemodel-v2").touch()
    configured = run(["cmake", "-S", str(source), "-B", str(build), "-G", "Ninja", "-DCMAKE_CXX_COMPILER=clang++-19", "-DCMAKE_BUILD_TYPE=Release",
                      "-DCMAKE_CXX_FLAGS_RELEASE=-O1", f"-DCMAKE_CXX_FLAGS=-include {header}", "-DMUSTER_BENCH=OFF", f"-DMUSTER_TORCH_DIR={place}"])
    if configured.returncode != 0:
        sys.exit(f"planted_bugs: cannot configure the tree:\n{configured.stdout[-2000:]}")


def plant(folder, seed, each):
    """Builds with all bugs, and replaces those that do not compile."""
    source, build, header = folder / "source", folder / "build", folder / "planted.h"
    cloned = run(["git", "clone", "--quiet", str(ROOT), str(source)])
    if cloned.returncode != 0:
        sys.exit(f"planted_bugs: cannot clone to {source}: {cloned.stdout}")
    header.write_text(HEADER % (folder / "number"))
    generator, taken, bugs, originals = random.Random(seed), set(), [], {}

    def add(where, number):
        file, line, done, text = draw(source, where, generator, taken)
        originals.setdefault(file, file.read_text())
        bugs.append({"number": number, "folder": where, "path": str(file), "file": str(file.relative_to(source)), "line": line + 1, "done": done,
                     "format": text, "was": originals[file].split("\n")[line].strip()})

    for index, where in enumerate(FOLDERS):
        for number in range(each):
            add(where, index * each + number + 1)
    configure(source, build, header)
    while True:
        write(bugs, originals)
        say(f"building with {len(bugs)} bugs ...")
        built = run(["cmake", "--build", str(build), "-j", str(os.cpu_count()), "--", "-k", "0"])
        if built.returncode == 0:
            break
        broken = {(name, int(line)) for name, line in re.findall(r"^(/\S+?):(\d+):\d+: error:", built.stdout, re.MULTILINE)}
        wrong = [bug for bug in bugs if (bug["path"], bug["line"]) in broken]
        if not wrong:
            sys.exit(f"planted_bugs: the tree does not build:\n{built.stdout[-3000:]}")
        for bug in wrong:
            say(f"{bug['file']}:{bug['line']} ({bug['done']}) does not compile; drawing another place")
            bugs.remove(bug)
            add(bug["folder"], bug["number"])
    bugs.sort(key=lambda bug: bug["number"])
    return {"seed": seed, "bugs": bugs}


def reached_tests(source, build, path):
    specification = importlib.util.spec_from_file_location("affected", source / "tools/affected.py")
    affected = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(affected)
    programs = affected.reached_targets(build, {Path(path)}, set())
    return {number for number, test in enumerate(tests_of(build), 1) if any(Path(word) in programs for word in test.get("command", []))}


def tests_of(build):
    return json.loads(run(["ctest", "--test-dir", str(build), "--show-only=json-v1"]).stdout)["tests"]


def label_of(test):
    labels = next((each["value"] for each in test.get("properties", []) if each["name"] == "LABELS"), [])
    return " ".join(labels)


def failed_tests(output):
    return FAILED.findall(output.partition("The following tests FAILED:")[2])


def find(folder, bug, tests):
    """The first test that fails because of the bug, or an empty string."""
    source, build = folder / "source", folder / "build"
    reached = reached_tests(source, build, bug["path"])
    command = ["ctest", "--test-dir", str(build), "--stop-on-failure", "-j", str(2 * os.cpu_count()), "--timeout", str(TEST_SECONDS),
               "--tests-information"]
    (folder / "number").write_text(str(bug["number"]))
    try:
        for stage in STAGES:
            # ctest counts the numbers within the tests that its own expressions choose, so this passes numbers only.
            chosen = [number for number, test in enumerate(tests_of(build), 1)
                      if number in reached and re.search(stage, label_of(test)) and re.search(tests, test["name"])]
            if not chosen:
                continue
            ran = run([*command, "0,0,0," + ",".join(map(str, chosen))])
            if failed := failed_tests(ran.stdout):
                return failed[0]
            if ran.returncode != 0:
                sys.exit(f"planted_bugs: ctest names no test that failed: {ran.stdout[-500:]}")
            if "tests passed" not in ran.stdout:
                sys.exit(f"planted_bugs: ctest ran nothing: {ran.stdout[-500:]}")
    finally:
        (folder / "number").write_text("0")
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="draws the places (default: 1)")
    parser.add_argument("--each", type=int, default=12, metavar="N", help="places in each of the four folders (default: 12)")
    parser.add_argument("--only", type=int, nargs="+", default=[], metavar="NUMBER", help="try only these bugs, even if their results are known")
    parser.add_argument("--tests", default="", metavar="R", help="run only tests with matching names")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    if folder.is_relative_to(tempfile.gettempdir()):
        sys.exit(f"planted_bugs: FOLDER: {folder}: tests over hosts have their own /tmp; name a folder elsewhere")
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / "results.json"
    known = json.loads(results.read_text()) if results.exists() else plant(folder, arguments.seed, arguments.each)
    results.write_text(json.dumps(known, indent=1))
    for bug in known["bugs"]:
        if arguments.only and bug["number"] not in arguments.only or not arguments.only and "found_by" in bug:
            continue
        started = time.monotonic()
        bug["found_by"] = find(folder, bug, arguments.tests)
        bug["seconds"] = round(time.monotonic() - started, 1)
        results.write_text(json.dumps(known, indent=1))
        if not arguments.json:
            print(f"{bug['number']:3} {bug['file']}:{bug['line']} {bug['done']}: {bug['found_by'] or 'NOT FOUND'} ({bug['seconds']} s)", flush=True)
    if arguments.json:
        print(json.dumps(known, indent=1))
    else:
        print(f"{sum(bool(bug.get('found_by')) for bug in known['bugs'])} of {len(known['bugs'])} found (seed {known['seed']})")


if __name__ == "__main__":
    main()
