"""Runs a script or a module in ranks that are forked from one interpreter with torch imported.

The agent executes `python [OPTIONS] warm_runner.py SCRIPT [ARGUMENT...]` (or `-m MODULE ...`) as a template for
`launch --warm SCRIPT ...`. It imports torch, waits, and forks one rank for each order; the rank runs the script as
`python SCRIPT` would. docs/warm_start.md says what is shared, and how a rank ends.
"""

import _io
import _signal  # signal takes a millisecond to make enumerations
import atexit
import builtins
import contextlib
import ctypes
import gc
import io
import os
import pkgutil
import random
import runpy
import signal
import sys
import threading
import types
import weakref

_CLOSING_TAKES = 5  # seconds, at most; a thread may hold a file's lock forever
_PLACES_FOR_ENDS = 32  # of Py_AtExit
_STDOUT_FAILED = 120  # the exit code of Python


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
    """Returns in a forked rank, with its arguments (the script or module, and what follows), and whether it is one."""
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
    return arguments_of_worker(library) if serving == 2 else sys.argv[1:], serving != 0


def run(arguments):
    """Runs the script or the module as Python's main program."""
    script = arguments[0]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__builtins__ = builtins
    if script.startswith("-m"):
        module, rest = (script[2:], arguments[1:]) if len(script) > 2 else (arguments[1], arguments[2:])
        sys.path[0] = os.getcwd()
        sys.argv = [module, *rest]
        runpy._run_module_as_main(module)  # what Python calls for -m
        return
    sys.path[0] = os.path.dirname(os.path.realpath(script))
    sys.argv = arguments
    if script.endswith(".pyc") or pkgutil.get_importer(script) is not None:  # a folder or an archive
        runpy.run_path(script, run_name="__main__")
        return
    main.__file__, main.__cached__ = script, None
    with io.open_code(os.path.abspath(script)) as file:
        source = file.read()
    exec(compile(source, script, "exec"), main.__dict__)


def needs_interpreters_end():
    """Whether an extension, such as mpi4py, has asked Python to call it when the interpreter has ended."""
    nothing = ctypes.cast(ctypes.pythonapi.Py_IsInitialized, ctypes.c_void_p)
    free = 0
    while ctypes.pythonapi.Py_AtExit(nothing) == 0:
        free += 1
    return free < _PLACES_FOR_ENDS


def spare_torch():
    """Torch would take back its registrations of operators one by one: nobody asks for them any more."""
    for finalizer in list(getattr(weakref.finalize, "_registry", ())):
        _, function, *_ = finalizer.peek() or (None, None)
        if getattr(function, "__module__", None) == "torch.library":
            finalizer.atexit = False


class Namespace:
    """Lives in a module's namespace for as long as it is in use."""

    def __init__(self, module):
        self.names = module.__dict__
        self.names["__muster_namespace__"] = self


def drop_modules(shared):
    """Destroys what the rank's own modules refer to, in the way of Python's end: so files and archives are closed."""
    gc.collect()  # it also puts objects before those that they refer to, so a file before its buffer
    own = [name for name in sys.modules if name == "__main__" or name.partition(".")[0] not in shared]
    modules = [sys.modules.pop(name) for name in own]
    left = [weakref.ref(Namespace(module)) for module in modules if isinstance(module, types.ModuleType)]
    del modules
    gc.collect()
    for namespace in reversed([reference() for reference in left]):
        if namespace is None:
            continue
        names = namespace.names
        for is_private in (True, False):
            for name in [name for name in names if name.startswith("_") is is_private and name != "__builtins__"]:
                names[name] = None


def close_files():
    """Closes files that something else still refers to; those that others are written through come last."""
    kinds = (_io._TextIOBase, _io._BufferedIOBase, _io._IOBase)

    def place(file):
        return [issubclass(type(file), kind) for kind in kinds].index(True), type(file).__module__ == "_io"

    standard = {id(file) for file in (sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__)}
    files = [item for item in gc.get_objects() if issubclass(type(item), _io._IOBase) and id(item) not in standard]
    for file in sorted(files, key=place):
        with contextlib.suppress(Exception):
            if not file.closed and file.writable():
                file.close()


def flush_standard_streams():
    """Returns whether stdout could be flushed."""
    with contextlib.suppress(Exception):
        sys.stderr.flush()
    try:
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()
    except Exception:
        sys.__excepthook__(*sys.exc_info())
        return False
    return True


def leave(code, shared):
    """Ends the rank as Python does, but without taking the interpreter and torch apart (runtime/rank/warm/leave.h)."""
    with contextlib.suppress(BaseException):
        threading._shutdown()  # waits for threads that are not daemons
    spare_torch()
    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()
    is_flushed = flush_standard_streams()
    for number in range(1, signal.NSIG):
        if callable(_signal.getsignal(number)):
            _signal.signal(number, _signal.SIG_DFL)
    threading.excepthook = lambda _: None  # daemons may miss what is destroyed now
    drop_modules(shared)
    closer = threading.Thread(target=close_files, daemon=True)
    closer.start()
    closer.join(_CLOSING_TAKES)
    is_flushed = flush_standard_streams() and is_flushed
    # The C library's exit(). PyDLL keeps the interpreter's lock, so daemons stay where they are.
    ctypes.PyDLL(None).exit(code & 0xFF if is_flushed else _STDOUT_FAILED)


def main():
    arguments, is_forked = serve()
    shared = {name.partition(".")[0] for name in sys.modules}
    code = 0
    try:
        run(arguments)
    except SystemExit as end:
        if not (end.code is None or isinstance(end.code, int)):
            raise
        code = end.code or 0
    can_leave = is_forked and hasattr(threading, "_shutdown") and hasattr(atexit, "_run_exitfuncs")
    if can_leave and not needs_interpreters_end():
        leave(code, shared)
    sys.exit(code)


main()
