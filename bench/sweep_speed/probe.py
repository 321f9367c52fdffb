"""A trial like sweep_speed_probe, in Python with torch: it begins when torch is imported."""

import sys
import time

import torch  # noqa: F401  what most trials need

begin = time.monotonic_ns()
stamps, seconds, steps, value = sys.argv[1:]
for step in range(1, int(steps) + 1):
    time.sleep(float(seconds) / int(steps))
    print(f"MUSTER_METRIC loss={value} step={step}", flush=True)
with open(stamps, "a") as file:
    file.write(f"{begin} {time.monotonic_ns()}\n")
