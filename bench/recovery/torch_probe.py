"""The Python version of torch_probe.cc: stamps when its process group exists, obeys SIGTERM, waits in the first attempt."""

import os
import signal
import sys
import time

import torch.distributed

STAMPS = sys.argv[1]
again = os.path.exists(STAMPS + ".killed")
file = os.open(STAMPS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def stamp(what):
    os.write(file, f"{what} {int(again)} {os.getpid()} {time.monotonic_ns()}\n".encode())


def stop(*_):
    stamp("T")
    os._exit(128 + signal.SIGTERM)


torch.distributed.init_process_group("gloo")
signal.signal(signal.SIGTERM, stop)
stamp("M")
while not again:
    signal.pause()
torch.distributed.destroy_process_group()
