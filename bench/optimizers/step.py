"""One contender of the benchmark of optimizers: optimizers_step.py MODEL STEPS FILE writes the median milliseconds of a step of torch's fused
AdamW over the parameters of MODEL (resnet50, transformer)."""

import statistics
import sys
import time

import torch
import torchvision

MODELS = {
    "resnet50": torchvision.models.resnet50,
    "transformer": lambda: torchvision.models.VisionTransformer(
        image_size=224, patch_size=16, num_layers=14, num_heads=12, hidden_dim=768, mlp_dim=3072
    ),
}


def main():
    torch.set_num_threads(1)
    parameters = list(MODELS[sys.argv[1]]().parameters())
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, 1e-3)
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, fused=True)
    milliseconds = []
    for _ in range(int(sys.argv[2]) + 2):
        began = time.monotonic()
        optimizer.step()
        milliseconds.append((time.monotonic() - began) * 1000)
    with open(sys.argv[3], "w") as file:
        file.write(str(statistics.median(milliseconds[2:])))


if __name__ == "__main__":
    main()
