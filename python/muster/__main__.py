"""`python -m muster ...` is `launch ...` of this Python's environment, and scripts run with this Python."""

import importlib.metadata
import os
import signal
import site
import sys
import sysconfig


def _launch():
    """The path of `launch` in this Python's environment; None if it is not installed."""
    try:
        files = importlib.metadata.files("muster-launch") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    places = [str(file.locate()) for file in files if file.name == "launch"]
    schemes = ["posix_prefix"] + (["posix_user"] if site.ENABLE_USER_SITE else [])
    folders = [sysconfig.get_path("scripts"), *(sysconfig.get_path("scripts", scheme) for scheme in schemes)]
    places += [os.path.join(folder, "launch") for folder in folders]
    return next((place for place in places if os.path.isfile(place) and os.access(place, os.X_OK)), None)


def main():
    launch = _launch()
    if launch is None:
        print(f"muster: launch is not installed in {sys.prefix}: install the wheel muster-launch there", file=sys.stderr)
        return 127
    os.environ.setdefault("PYTHON_EXEC", sys.executable)
    for each in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these, and a program that it executes would, too
        signal.signal(each, signal.SIG_DFL)
    os.execv(launch, ["launch", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
