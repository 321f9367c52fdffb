"""An ordinary PyTorch script, written for torchrun; it knows nothing of Muster.

usage: python_ddp_script.py CHECKPOINT [FAIL_AT_STEP [PAUSE_SECONDS]]
Trains a small net with DDP over Gloo, saves a checkpoint of each step, resumes from it, prints the hash of the parameters.
"""
import hashlib
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = 8


def main():
    checkpoint, fail_at = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else -1
    pause_seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 0
    dist.init_process_group("gloo")
    rank, restarts = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    first = 0
    if os.path.exists(checkpoint):
        state = torch.load(checkpoint)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    print(f"rank {rank} restart {restarts} starts at step {first}")
    for step in range(first, STEPS):
        if step == fail_at and rank == 1 and restarts == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        generator = torch.Generator().manual_seed(1000 * step + rank)
        data, target = torch.randn(8, 16, generator=generator), torch.randint(4, (8,), generator=generator)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(data), target).backward()
        optimizer.step()
        if rank == 0:
            torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1},
                       checkpoint + ".tmp")
            os.replace(checkpoint + ".tmp", checkpoint)
        dist.barrier()
        time.sleep(pause_seconds)
    digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
    print(f"rank {rank} parameters {digest}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
