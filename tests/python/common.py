"""The common part of this folder's trainings: net, data, and the moments of the test's faults."""

import hashlib
import os
import signal
import time

import torch

STEPS = 60
EVERY = 10  # steps from one checkpoint to the next
STEPS_OF_AN_EPOCH = 20
KILLED_AT = 27
NOTICED_AT = 43


def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))


def batch_of(step, rank):
    generator = torch.Generator().manual_seed(1000 * rank + step)
    return torch.randn(8, 16, generator=generator), torch.randint(4, (8,), generator=generator)


def faults_after(step, directory):
    """Kills rank 1 in the first attempt; in the second, asks the test to give notice. Rank 1 may learn of the notice some steps later."""
    if "FAULTS" not in os.environ:
        return
    import muster  # imported here: the test also reads this file, and has no muster

    attempt, rank = os.environ["MUSTER_ATTEMPT"], int(os.environ["RANK"])
    if attempt == "1" and rank == 1 and step == KILLED_AT:
        os.kill(os.getpid(), signal.SIGKILL)
    if attempt == "2" and step >= NOTICED_AT + 2 * rank:
        open(os.path.join(directory, "notice"), "w").close()
        end = time.monotonic() + 60
        while not muster.preemption_noticed() and time.monotonic() < end:
            time.sleep(0.01)


def print_digest(module):
    digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in module.parameters())).hexdigest()
    print(f"rank {os.environ['RANK']} parameters {digest}")
