"""What the trainings of this folder have in common: net, data, and where the test's faults come."""

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
    """Rank 1 is killed in the first attempt; in the second the test is told to give notice."""
    if "FAULTS" not in os.environ:
        return
    attempt = os.environ["MUSTER_ATTEMPT"]
    if attempt == "1" and os.environ["RANK"] == "1" and step == KILLED_AT:
        os.kill(os.getpid(), signal.SIGKILL)
    if attempt == "2" and step >= NOTICED_AT:
        open(os.path.join(directory, "notice"), "w").close()
        time.sleep(0.2)


def print_digest(module):
    digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in module.parameters())).hexdigest()
    print(f"rank {os.environ['RANK']} parameters {digest}")
