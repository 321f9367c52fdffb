"""What a worker finds when it starts, as JSON in the directory PROBE_DIRECTORY.

usage: torchrun_probe.py [ARGUMENTS...]
Exits with PROBE_EXIT after all ranks have written their files, as long as it has been restarted fewer than PROBE_FAILURES times.
"""
import json
import os
import pathlib
import sys
import time

restarts = os.environ["TORCHELASTIC_RESTART_COUNT"]
found = {"argv": sys.argv[1:], "script": os.path.basename(sys.argv[0]), "name": __name__, "directory": os.getcwd(),
         "environment": dict(os.environ)}
directory = pathlib.Path(os.environ["PROBE_DIRECTORY"])
file = directory / f"rank_{os.environ['RANK']}_restart_{restarts}.json"
file.with_suffix(".part").write_text(json.dumps(found))
file.with_suffix(".part").rename(file)
print("probe of rank", os.environ["RANK"], flush=True)
if int(restarts) < int(os.environ.get("PROBE_FAILURES", "0")):
    deadline = time.monotonic() + 30
    while len(list(directory.glob(f"rank_*_restart_{restarts}.json"))) < int(os.environ["WORLD_SIZE"]):
        if time.monotonic() > deadline:
            sys.exit("the other ranks have not written their files")
        time.sleep(0.01)
    sys.exit(int(os.environ.get("PROBE_EXIT", "1")))
