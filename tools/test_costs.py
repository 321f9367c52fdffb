#!/usr/bin/env python3
"""Measures the cost of each test in processor seconds and seconds; prints the most expensive first.

    tools/test_costs.py BUILD [--regex R] [--label L] [--most N] [--json FILE]

Runs the tests that ctest finds in the folder BUILD, two at a time, or alone if they are marked so. It only measures: it names a test that fails,
and ctest gives the reason. Processor seconds include those of all processes that the test waited for.
"""

import argparse
import collections
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor


def tests_of(arguments):
    command = ["ctest", "--test-dir", arguments.build, "--show-only=json-v1"]
    if arguments.regex:
        command += ["-R", arguments.regex]
    if arguments.label:
        command += ["-L", arguments.label]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        sys.exit(f"test_costs: ctest cannot list the tests of {arguments.build}: {listed.stderr.strip()}")
    return [test for test in json.loads(listed.stdout)["tests"] if "command" in test]


def property_of(test, name, default):
    return next((entry["value"] for entry in test["properties"] if entry["name"] == name), default)


def runs_alone(test):
    return bool(property_of(test, "RUN_SERIAL", False))


LOCKS = collections.defaultdict(threading.Lock)


def measure(test):
    with contextlib.ExitStack() as held:
        for name in sorted(property_of(test, "RESOURCE_LOCK", [])):
            held.enter_context(LOCKS[name])
        return measure_alone(test)


def measure_alone(test):
    environment = {**os.environ, **dict(entry.split("=", 1) for entry in property_of(test, "ENVIRONMENT", []))}
    with tempfile.TemporaryFile() as output:
        began = time.monotonic()
        child = subprocess.Popen(test["command"], cwd=property_of(test, "WORKING_DIRECTORY", None), env=environment, stdin=subprocess.DEVNULL,
                                 stdout=output, stderr=output, start_new_session=True)
        # A launcher that gets TERM stops its ranks, too.
        timer = threading.Timer(property_of(test, "TIMEOUT", 1500), os.killpg, (child.pid, signal.SIGTERM))
        timer.start()
        _, status, used = os.wait4(child.pid, 0)
        timer.cancel()
    child.returncode = os.waitstatus_to_exitcode(status)
    return {"name": test["name"], "processor": round(used.ru_utime + used.ru_stime, 2), "seconds": round(time.monotonic() - began, 2),
            "label": "".join(property_of(test, "LABELS", ["-"])[:1]).split(" ")[0], "code": child.returncode, "alone": runs_alone(test)}


def measure_all(tests):
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(measure, (test for test in tests if not runs_alone(test))))
    return results + [measure(test) for test in tests if runs_alone(test)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("--regex", help="tests whose names match, as ctest -R")
    parser.add_argument("--label", help="tests whose labels match, as ctest -L")
    parser.add_argument("--most", type=int, default=60, help="rows to print (60)")
    parser.add_argument("--json", help="write all of it to this file")
    arguments = parser.parse_args()
    # A shell makes its background programs ignore Ctrl-C, and the tests that send it would then wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    results = measure_all(tests_of(arguments))
    results.sort(key=lambda result: -result["processor"] - result["seconds"])
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=0)
    print(f"{'processor':>9}  {'seconds':>8}  label     test")
    for result in results[:arguments.most]:
        print(f"{result['processor']:9.2f}  {result['seconds']:8.2f}  {result['label']:<8}  {result['name']}")
    alone = [result["seconds"] for result in results if result["alone"]]
    print(f"{len(results)} tests: {sum(result['processor'] for result in results):.0f} processor seconds, "
          f"{sum(result['seconds'] for result in results):.0f} seconds, {sum(alone):.0f} of them by the {len(alone)} that run alone")
    failed = [result["name"] for result in results if result["code"] not in (0, 77)]
    print(f"failed: {', '.join(failed) or 'none'}")


if __name__ == "__main__":
    main()
