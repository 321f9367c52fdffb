"""Makes the steps of optimizer_parity_test.cc with torch's optimizers and fused=True, with and without a GradScaler:
optimizer_parity.py FOLDER STEPS.

Writes all parameters after each step to FOLDER/NAME.python, as doubles. Reads from FOLDER what C++ has written: parameters, and the
gradients of each step, as doubles whose values are floats."""

import sys

import numpy
import torch

SHAPES = [(37, 11), (5,), (64, 3, 3, 3)]
LATE = 1  # gets gradients from the fourth step on


CASES = {
    "FusedAdam": (torch.optim.Adam, dict(betas=(0.8, 0.97), eps=1e-7, weight_decay=0.03)),
    "FusedAdamAmsgrad": (torch.optim.Adam, dict(weight_decay=0.03, amsgrad=True)),
    "FusedAdamW": (torch.optim.AdamW, dict(weight_decay=0.2)),
    "FusedSGD": (torch.optim.SGD, dict(weight_decay=0.03)),
    "FusedSGDMomentum": (torch.optim.SGD, dict(momentum=0.9, dampening=0.2, weight_decay=0.03)),
    "FusedSGDNesterov": (torch.optim.SGD, dict(momentum=0.9, nesterov=True)),
}


def read(path):
    values, tensors = torch.from_numpy(numpy.fromfile(path)), []
    for shape in SHAPES:
        count = numpy.prod(shape)
        tensors.append(values[:count].view(shape).float())
        values = values[count:]
    assert len(values) == 0
    return tensors


# As in optimizer_parity_test.cc.
SCALER_STEPS = 50
SCALED = {
    "AdamW": (torch.optim.AdamW, dict(weight_decay=0.2, fused=True), dict(growth_interval=4)),
    "SGD": (torch.optim.SGD, dict(momentum=0.9, foreach=False), dict(growth_factor=1.5, backoff_factor=0.3, growth_interval=3, init_scale=1000.0)),
}
PLANTED = {3: float("inf"), 11: float("nan"), 12: float("-inf"), 13: float("inf"), 34: float("nan")}


def scale(folder, steps):
    for name, (kind, options, scaling) in SCALED.items():
        parameters = [torch.nn.Parameter(tensor) for tensor in read(f"{folder}/parameters")]
        optimizer = kind(parameters, lr=1e-2, **options)
        scaler = torch.amp.GradScaler("cpu", **scaling)
        values = []
        for step in range(SCALER_STEPS):
            scaled_one = scaler.scale(torch.ones(()))
            for parameter, grad in zip(parameters, read(f"{folder}/grads.{step % steps}")):
                parameter.grad = grad * scaled_one
            if step in PLANTED:
                parameters[step % 3].grad[0] *= PLANTED[step]
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            values += [parameter.detach().flatten().double().clone() for parameter in parameters]
            values.append(torch.tensor([scaler.get_scale(), scaler._get_growth_tracker()], dtype=torch.double))
        torch.cat(values).numpy().tofile(f"{folder}/{name}.scaled")


def main():
    folder, steps = sys.argv[1], int(sys.argv[2])
    scale(folder, steps)
    for name, (kind, options) in CASES.items():
        parameters = [torch.nn.Parameter(tensor) for tensor in read(f"{folder}/parameters")]
        groups = [{"params": parameters[:2]}, {"params": parameters[2:], "lr": 3e-3, "weight_decay": 0.015}]
        optimizer = kind(groups, lr=1e-2, fused=True, **options)
        values = []
        for step in range(steps):
            for place, (parameter, grad) in enumerate(zip(parameters, read(f"{folder}/grads.{step}"))):
                late = place == LATE and step < 3 and not name.startswith("FusedSGD")
                parameter.grad = None if late else grad
            optimizer.step()
            values += [parameter.detach().flatten().double().clone() for parameter in parameters]
        torch.cat(values).numpy().tofile(f"{folder}/{name}.python")


if __name__ == "__main__":
    main()
