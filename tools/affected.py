#!/usr/bin/env python3
"""Finds the tests that a change can affect, from the build's own records.

    tools/affected.py BUILD [BASE]

Compares the working tree, new files included, with the commit BASE (HEAD). Prints to standard output what `ctest -I FILE` reads: the numbers of the
tests in the built folder BUILD. Prints to standard error the changed files that no test depends on, apart from C++ sources and headers. A test is
affected if one of its programs is built from a changed file, or if its command or its program's definitions name a changed file or the file's
folder. A change of the build files affects all tests. `./dev test affected` uses this tool.
"""

import functools
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD_FILES = re.compile(r"(.*/)?CMakeLists\.txt|CMakePresets\.json|cmake/.*|.*\.cmake|dev")
ALWAYS = ("tidy", "tidy_test")  # they read every file


def output_of(*command):
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"affected: {' '.join(command[:3])} failed: {ran.stderr.strip() or ran.stdout.strip()}")
    return ran.stdout


def changed_files(base):
    names = output_of("git", "-C", str(ROOT), "diff", "--name-only", "--no-renames", base).splitlines()
    return {ROOT / name for name in names + output_of("git", "-C", str(ROOT), "ls-files", "--others", "--exclude-standard").splitlines()}


def targets_of(build):
    """{id: target} from the answers of CMake's file API."""
    replies = build / ".cmake/api/v1/reply"
    models = sorted(replies.glob("codemodel-v2-*.json"))
    if not models:
        sys.exit(f"affected: {build} was configured without a query of CMake's file API: `./dev test affected` makes one")
    named = json.loads(models[-1].read_text())["configurations"][0]["targets"]
    return {target["id"]: json.loads((replies / target["jsonFile"]).read_text()) for target in named}


def objects_made_from(build, changed):
    """Names of the objects whose compilation read a changed file."""
    @functools.cache  # many compilations read the same file
    def is_changed(name):
        return Path(build, name).resolve() in changed

    found, current = set(), ""
    for line in output_of("ninja", "-C", str(build), "-t", "deps").splitlines():
        if line and not line.startswith(" "):
            current = line.split(":")[0]
        elif line and is_changed(line.strip()):
            found.add(current)
    return found


def sources_among(files):
    """C++ sources and headers: the compiler's own records say which sources read them."""
    return {file for file in files if file.suffix in (".cc", ".h")}


def inputs_of(build, target):
    """The files that the target is built from, including those of custom commands, such as scripts that are packed into a program."""
    return {Path(build, line).resolve() for artifact in target.get("artifacts", [])
            for line in output_of("ninja", "-C", str(build), "-t", "inputs", artifact["path"]).splitlines()}


def names(text, changed):
    """The changed files that a word of a command or a definition names, directly or by a folder that contains them."""
    return {file for word in re.findall(r"/[^\s\"'=:;]+", text) for file in changed if Path(word) == file or Path(word.rstrip("/")) in file.parents}


def reached_targets(build, changed, used):
    targets = targets_of(build)
    dependents = defaultdict(set)
    for key, target in targets.items():
        for dependency in target.get("dependencies", []):
            dependents[dependency["id"]].add(key)
    folders = {name.split(".dir/")[0] + ".dir" for name in objects_made_from(build, changed)}
    reached = set()
    for key, target in targets.items():
        sources = {(ROOT / source["path"]).resolve() for source in target.get("sources", [])} & changed
        definitions = " ".join(define["define"] for group in target.get("compileGroups", []) for define in group.get("defines", []))
        named = names(definitions, changed - sources_among(changed))
        used |= sources | named
        inputs = inputs_of(build, target) & changed
        used |= inputs
        if sources or named or inputs or f"{target['paths']['build']}/CMakeFiles/{target['name']}.dir".removeprefix("./") in folders:
            reached.add(key)
    waiting = list(reached)
    while waiting:
        new = dependents[waiting.pop()] - reached
        reached |= new
        waiting += new
    return {Path(build, artifact["path"]).resolve() for key in reached for artifact in targets[key].get("artifacts", [])}


def main(arguments):
    build, base = Path(arguments[0]).resolve(), arguments[1] if len(arguments) > 1 else "HEAD"
    changed = changed_files(base)
    tests = json.loads(output_of("ctest", "--test-dir", str(build), "--show-only=json-v1"))["tests"]
    used = sources_among(changed)
    if any(BUILD_FILES.fullmatch(str(file.relative_to(ROOT))) for file in changed):
        numbers, used = range(1, len(tests) + 1), changed
    else:
        programs = reached_targets(build, changed, used)
        numbers = []
        for number, test in enumerate(tests, 1):
            words = test.get("command", [])
            # A script may read files in its own folder.
            folders = " ".join(str(Path(word).parent) for word in words if Path(word).suffix in (".py", ".sh", ".cmake"))
            named = names(" ".join(words), changed) | names(folders, changed - sources_among(changed))
            used |= named
            installs = test["name"] == "installed_package" and programs
            if test["name"] in ALWAYS or named or installs or any(Path(word) in programs for word in words):
                numbers.append(number)
    for file in sorted(changed - used):
        print(f"affected: only tidy depends on {file.relative_to(ROOT)}", file=sys.stderr)
    files = "1 file differs" if len(changed) == 1 else f"{len(changed)} files differ"
    print(f"affected: {files} from {base}: {len(numbers)} of {len(tests)} tests", file=sys.stderr)
    print("0,0,0," + ",".join(map(str, numbers)))


if __name__ == "__main__":
    main(sys.argv[1:])
