"""Runs a script or a module in ranks that are forked from one interpreter with torch imported.

The agent executes `python [OPTIONS] warm_runner.py SCRIPT [ARGUMENT...]` (or `-m MODULE ...`) as a template for
`launch --warm SCRIPT ...`. It imports torch, waits, and forks one rank for each order; the rank runs the script as
`python SCRIPT` would. docs/warm_start.md says what is shared.
"""

import ctypes
import gc
import os
import random
import runpy
import sys


def read_environment():
    """The C library's current environment; the interpreter read os.environ only when it started."""
    entries = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.pythonapi, "environ")
    environment, at = {}, 0
    while entries[at]:
        name, _, value = entries[at].partition(b"=")
        environment[name] = value
        at += 1
    return environment


def refresh_environment():
    current = read_environment()
    for name in set(os.environb) - set(current):
        del os.environb[name]
    os.environb.update(current)


def arguments_of_worker(library):
    """A worker's own arguments; sys.argv has the template's."""
    library.muster_worker_argument.restype = ctypes.c_char_p
    arguments = []
    while (word := library.muster_worker_argument(len(arguments))) is not None:
        arguments.append(os.fsdecode(word))
    return arguments


def serve():
    """Returns in a forked rank, with its arguments: the script or module, and what follows."""
    try:
        import torch
    except ImportError:
        torch = None  # a script without torch can be forked too
    drawn = torch.initial_seed() if torch else None
    gc.collect()
    gc.freeze()  # so a rank's garbage collector leaves these pages shared
    sys.stdout.flush()
    sys.stderr.flush()
    # PyDLL keeps the interpreter's lock, which Python's own fork handlers require.
    library = ctypes.PyDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), "libmuster_warm.so"))
    hooks = (ctypes.pythonapi.PyOS_BeforeFork, ctypes.pythonapi.PyOS_AfterFork_Parent, ctypes.pythonapi.PyOS_AfterFork_Child)
    serving = library.muster_serve_as_template(*(ctypes.cast(hook, ctypes.c_void_p) for hook in hooks))
    refresh_environment()
    random.seed()
    if numpy_random := sys.modules.get("numpy.random"):  # otherwise it takes a seed when it is imported
        numpy_random.seed()
    if torch and torch.initial_seed() == drawn:
        # Not torch.seed(), which is for all devices: their generators draw a seed when a rank first uses them.
        torch.default_generator.seed()
    return arguments_of_worker(library) if serving == 2 else sys.argv[1:]


def main():
    arguments = serve()
    if arguments[0].startswith("-m"):
        module, rest = (arguments[0][2:], arguments[1:]) if len(arguments[0]) > 2 else (arguments[1], arguments[2:])
        sys.path[0] = os.getcwd()
        sys.argv = [module, *rest]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.realpath(arguments[0]))
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


main()
