#!/usr/bin/env python3
"""torchvision's ResNet-50 in numbers, for pipeline_models_test.cc.

    resnet_golden.py > resnet_golden.txt
    resnet_golden.py --check    exits with 1 if resnet_golden.txt is not what this torchvision gives; with 77 without torchvision

Each line is a tensor: its name, its shape, and a number. For a parameter the number is a weighted sum of its gradient; for a buffer, its sum
after one forward pass in training. The last lines are weighted sums of logits, in training and in evaluation. Needs torch and torchvision.
"""

import sys

import golden

try:
    import torch
    import torchvision
except ImportError as missing:
    print(f"skipped: {missing}; `./dev setup` installs torchvision beside torch")
    sys.exit(77)


def waves(shape, phase):
    """Numbers between -1 and 1 that differ between tensors."""
    count = torch.Size(shape).numel()
    return torch.sin(torch.arange(count, dtype=torch.float64) * 0.7 + phase).reshape(shape)


def fill(model):
    for place, (name, tensor) in enumerate(model.state_dict().items()):
        if name.endswith("num_batches_tracked"):
            continue
        values = waves(tensor.shape, place)
        if tensor.dim() > 1:
            values *= (0.2 / tensor[0].numel()) ** 0.5
        elif not name.endswith(("bias", "running_mean")):
            values = 1 + values / 2
        tensor.copy_(values)


def lines():
    model = torchvision.models.resnet50().double()
    fill(model)
    images = waves((2, 3, 65, 48), 0.5)
    model.eval()
    with torch.no_grad():
        evaluated = model(images)
    model.train()
    logits = model(images)
    (logits * waves(logits.shape, 0.25)).sum().backward()
    parameters = dict(model.named_parameters())
    for place, (name, tensor) in enumerate(model.state_dict().items()):
        value = (waves(tensor.shape, place + 1) * parameters[name].grad).sum() if name in parameters else tensor.double().sum()
        yield f"{name} {','.join(map(str, tensor.shape)) or '-'} {value.item():.12e}"
    for name, values in (("training", logits), ("evaluation", evaluated)):
        for place, row in enumerate(values):
            yield f"{name} {place} {(row * waves(row.shape, 0.75)).sum().item():.12e}"


def close(held, given):
    held, given = held.split(), given.split()
    return held[:-1] == given[:-1] and abs(float(held[-1]) - float(given[-1])) <= 1e-7 * max(1e-3, abs(float(held[-1])))


sys.exit(golden.main(__file__, "torchvision", list(lines()), close))
