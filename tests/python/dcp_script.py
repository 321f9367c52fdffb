"""usage: dcp_script.py DIRECTORY: the training with plain torch and torch.distributed.checkpoint, which saves in the background."""

import sys

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

import muster
import muster.dcp
import muster.torch
from common import EVERY, STEPS, batch_of, faults_after, net, print_digest

directory = sys.argv[1]
dist.init_process_group("gloo")
group = dist.new_group()  # for the saves, which run at the same time as the training's reductions
module = net()
model = torch.nn.parallel.DistributedDataParallel(module)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def state():
    parameters, moments = get_state_dict(model, optimizer)
    return {"model": parameters, "optimizer": moments}


state_now = state()
start = muster.dcp.load_newest(state_now, directory)
if start:
    set_state_dict(model, optimizer, model_state_dict=state_now["model"], optim_state_dict=state_now["optimizer"])
leave = muster.torch.Leave()
saving = None
for step in range(start + 1, STEPS + 1):
    data, target = batch_of(step, dist.get_rank())
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(data), target).backward()
    optimizer.step()
    muster.step(step)
    faults_after(step, directory)
    if leave.after(step):
        if saving:
            saving.result()
        muster.dcp.save(state(), directory, step)
        raise muster.Preempted
    if step % EVERY == 0:
        if saving:
            saving.result()
        saving = muster.dcp.async_save(state(), directory, step, process_group=group)
if saving:
    saving.result()
print_digest(module)
dist.destroy_process_group()
