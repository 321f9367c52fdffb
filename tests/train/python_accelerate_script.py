"""An ordinary script for Hugging Face Accelerate; it knows nothing of Muster.

usage: python_accelerate_script.py DIRECTORY [FAIL_AT_STEP]
Trains a small net, saves Accelerate's own checkpoint of each epoch in the directory, prints the hash of the parameters.
"""
import hashlib
import os
import signal
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

EPOCHS = 4


def main():
    directory, fail_at = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else -1
    accelerator = Accelerator(cpu=True)
    rank, restarts = accelerator.process_index, int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    set_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    samples = torch.utils.data.TensorDataset(torch.randn(64, 16), torch.randint(4, (64,)))
    loader = torch.utils.data.DataLoader(samples, batch_size=8)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    done = sorted(name for name in os.listdir(directory) if name.startswith("epoch-")) if os.path.isdir(directory) else []
    if done:
        accelerator.load_state(os.path.join(directory, done[-1]))
    print(f"rank {rank} restart {restarts} starts at epoch {len(done)}")
    for epoch in range(len(done), EPOCHS):
        for step, (data, target) in enumerate(loader):
            if epoch == 2 and step == fail_at and rank == 1 and restarts == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            optimizer.zero_grad()
            accelerator.backward(torch.nn.functional.cross_entropy(model(data), target))
            optimizer.step()
        accelerator.save_state(os.path.join(directory, "new"))
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:
            os.replace(os.path.join(directory, "new"), os.path.join(directory, f"epoch-{epoch}"))
        accelerator.wait_for_everyone()
    model = accelerator.unwrap_model(model)
    digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
    print(f"rank {rank} parameters {digest}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
