"""usage: accelerate_script.py DIRECTORY: the training of lightning_script.py with Accelerate."""

import sys

import torch
from accelerate import Accelerator

import muster.accelerate
from common import EVERY, STEPS, batch_of, faults_after, net, print_digest

directory = sys.argv[1]
accelerator = Accelerator(cpu=True)
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
model, optimizer = accelerator.prepare(model, optimizer)
training = muster.accelerate.Training(accelerator, directory, every=EVERY)
for step in range(training.resume() + 1, STEPS + 1):
    data, target = batch_of(step, accelerator.process_index)
    optimizer.zero_grad()
    accelerator.backward(torch.nn.functional.cross_entropy(model(data), target))
    optimizer.step()
    faults_after(step, directory)
    training.step(step)
training.end()
print_digest(accelerator.unwrap_model(model))
accelerator.end_training()
