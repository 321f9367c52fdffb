"""Tells the agent when a rank's Python has run the script's last line: a crash while Python ends lost no work then.

The agent puts this file at the end of PYTHONPATH, and Python imports it when it starts. The sitecustomize that Python
would have found without it runs too.
"""

import atexit
import os
import sys
import threading

_here = os.path.dirname(__file__)
_sys_exit = sys.exit
_failed = False  # the program has chosen to fail, with sys.exit, exit or quit
_told = False


def _exit(status=None):
    _note(status)
    _sys_exit(status)


def _quit_noting(self, code=None):
    _note(code)
    _quit(self, code)


def _note(status):
    global _failed
    _failed = status is not None and status != 0


def _tell():
    global _told
    path = os.environ.get("MUSTER_SOCKET")
    if _told or _failed or not path or hasattr(sys, "last_type"):  # an uncaught exception sets last_type
        return
    _told = True
    try:
        import _socket  # thirty times faster to import than socket

        datagram = '{"v":1,"type":"last_line","rank":%d,"attempt":%d,"pid":%d}' % (
            int(os.environ["RANK"]), int(os.environ["MUSTER_ATTEMPT"]), os.getpid())
        agent = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
        agent.settimeout(1)  # seconds, if the agent does not read
        agent.sendto(datagram.encode(), path)
        agent.close()
    except Exception:  # the agent is gone, or this is not a rank
        pass


def _threads_end():
    """Python calls this before the functions of atexit, which may crash. Other threads may still work."""
    if all(thread.daemon or thread is threading.main_thread() for thread in threading.enumerate()):
        _tell()


def _run_next():
    """Imports the next module of this name, as if this one were not there."""
    place = sys.path.index(_here)
    this = sys.modules.pop(__name__)
    del sys.path[place]
    try:
        __import__(__name__)
    except ImportError as error:
        if getattr(error, "name", None) != __name__:
            raise
        sys.modules[__name__] = this  # there is none
    finally:
        sys.path.insert(place, _here)


if sys.version_info >= (3, 8):
    sys.exit = _exit
    import _sitebuiltins

    _quit = _sitebuiltins.Quitter.__call__
    _sitebuiltins.Quitter.__call__ = _quit_noting  # exit and quit are objects of this class
    atexit.register(_tell)
if hasattr(threading, "_register_atexit"):  # Python 3.9
    threading._register_atexit(_threads_end)
_run_next()
