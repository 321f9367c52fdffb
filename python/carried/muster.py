"""Finds the right `muster` when the agent's copy is on PYTHONPATH, which Python searches before installed packages.

An installed muster, or another project of that name, takes precedence; the copy next to this file comes last.
"""

import importlib.util
import os
import runpy
import sys

_here = os.path.dirname(__file__)
sys.path[:] = [place for place in sys.path if place != _here]
if __name__ != "__main__":
    del sys.modules[__name__]
if importlib.util.find_spec("muster") is None:
    sys.path.append(os.path.join(_here, "carried"))
if __name__ == "__main__":  # python -m muster
    runpy.run_module("muster", run_name="__main__", alter_sys=True)
else:
    importlib.import_module("muster")
