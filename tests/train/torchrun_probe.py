"""What a worker finds when it starts, as JSON in the directory PROBE_DIRECTORY.

usage: torchrun_probe.py [ARGUMENTS...]
Exits with PROBE_EXIT as long as it has been restarted fewer than PROBE_FAILURES times.
"""
import json
import os
import pathlib
import sys

restarts = os.environ["TORCHELASTIC_RESTART_COUNT"]
found = {"argv": sys.argv[1:], "script": os.path.basename(sys.argv[0]), "name": __name__, "directory": os.getcwd(),
         "environment": dict(os.environ)}
name = "rank_{RANK}_restart_{TORCHELASTIC_RESTART_COUNT}.json".format(**os.environ)
pathlib.Path(os.environ["PROBE_DIRECTORY"], name).write_text(json.dumps(found))
print("probe of rank", os.environ["RANK"], flush=True)
if int(restarts) < int(os.environ.get("PROBE_FAILURES", "0")):
    sys.exit(int(os.environ.get("PROBE_EXIT", "1")))
