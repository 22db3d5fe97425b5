# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""DistributedDataParallel on Hocket, under any launcher:

    hocket run -n 4 python examples/pytorch/ddp.py
    mpirun -n 4 python examples/pytorch/ddp.py
    srun -n 4 python examples/pytorch/ddp.py
    torchrun --nproc-per-node 4 examples/pytorch/ddp.py
"""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import hocket.distributed

torch.set_num_threads(1)
hocket.distributed.init_process_group()  # under torchrun, dist.init_process_group("hocket") does the same
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + dist.get_rank())
losses = []
for _ in range(50):
    x = torch.randn(16, 10)
    loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())

weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
of_all = [None] * dist.get_world_size()
dist.all_gather_object(of_all, weights)
learned = "the loss fell" if losses[-1] < losses[0] / 4 else "the loss did not fall"
same = "equal weights" if all(torch.equal(weights, other) for other in of_all) else "other weights than others"
# In one write, so that lines of several ranks do not mix.
sys.stdout.write(f"rank {dist.get_rank()} of {dist.get_world_size()}: {learned}, {same}\n")
dist.destroy_process_group()
