#!/usr/bin/env python3
"""pack_wheel.py INSTALLED VERSION OUT: packs an installed Muster into OUT/muster_launch-VERSION-py3-none-manylinux_2_28_x86_64.whl, and prints its path.

INSTALLED is the prefix of a `cmake --install`, built with MUSTER_GLIBC=2.28. pip puts bin/ into the environment's folder of programs, as it is:
no Python starts before `launch`. lib/muster and share go below the environment's prefix, where the programs look for them.
"""
import pathlib
import sys

from wheel.wheelfile import WheelFile

SOURCE = pathlib.Path(__file__).resolve().parent.parent
TAG = "py3-none-manylinux_2_28_x86_64"
METADATA = """\
Metadata-Version: 2.1
Name: muster-launch
Version: {version}
Summary: Starts, watches and recovers distributed training jobs
License: Apache-2.0
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux
Requires-Python: >=3.8
Provides-Extra: debug
Requires-Dist: py-spy; extra == "debug"
Description-Content-Type: text/markdown

Muster starts, watches and recovers distributed training jobs. Scripts for torchrun run unchanged:

    launch --gpus-per-node 2 train.py

`launch` starts the ranks on this machine, on hosts that ssh reaches, or in containers. It restarts them from the newest checkpoint when a rank or a
node is lost, and says which one caused a failure. `launch --help` explains its flags.
"""
WHEEL = """\
Wheel-Version: 1.0
Generator: muster
Root-Is-Purelib: false
Tag: {tag}
"""


def files_below(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def pack(installed, version, out):
    name = f"muster_launch-{version}"
    path = out / f"{name}-{TAG}.whl"
    path.unlink(missing_ok=True)
    with WheelFile(str(path), "w") as wheel:
        for file in files_below(SOURCE / "python/muster"):
            if file.suffix in (".py", ".pyi", ".typed"):
                wheel.write(str(file), str(pathlib.Path("muster", file.relative_to(SOURCE / "python/muster"))))
        for program in ("launch", "muster-agent"):
            wheel.write(str(installed / "bin" / program), f"{name}.data/scripts/{program}")
        for folder in ("lib/muster", "share"):
            for file in files_below(installed / folder):
                wheel.write(str(file), f"{name}.data/data/{file.relative_to(installed)}")
        wheel.writestr(f"{name}.dist-info/METADATA", METADATA.format(version=version))
        wheel.writestr(f"{name}.dist-info/WHEEL", WHEEL.format(tag=TAG))
        wheel.write(str(SOURCE / "LICENSE"), f"{name}.dist-info/LICENSE")
    return path


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    print(pack(pathlib.Path(sys.argv[1]), sys.argv[2], folder))
