# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""A Horovod script as any: handwritten digits (scikit-learn's, which need no download) and a small convolutional net.
It knows nothing of Hocket:

    hocket run -n 4 python -m hocket.horovod_alias examples/horovod/digits.py
"""
import argparse

import horovod.torch as hvd
import torch
from sklearn.datasets import load_digits
from torch.nn import functional
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--fp16-allreduce", action="store_true")
parser.add_argument("--use-adasum", action="store_true")
parser.add_argument("--gradient-predivide-factor", type=float, default=1.0)
arguments = parser.parse_args()

hvd.init()
torch.manual_seed(7)
torch.set_num_threads(1)

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
labels = torch.tensor(digits.target)
train = TensorDataset(images[:1500], labels[:1500])
sampler = DistributedSampler(train, num_replicas=hvd.size(), rank=hvd.rank())
loader = DataLoader(train, batch_size=64 // hvd.size(), sampler=sampler)

model = torch.nn.Sequential(torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
                            torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(),
                            torch.nn.Linear(512, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
optimizer = hvd.DistributedOptimizer(
    optimizer, named_parameters=model.named_parameters(),
    compression=hvd.Compression.fp16 if arguments.fp16_allreduce else hvd.Compression.none,
    op=hvd.Adasum if arguments.use_adasum else hvd.Average,
    gradient_predivide_factor=arguments.gradient_predivide_factor)

for epoch in range(arguments.epochs):
    model.train()
    sampler.set_epoch(epoch)
    for data, target in loader:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(data), target)
        loss.backward()
        optimizer.step()

model.eval()
mine = slice(1500 + hvd.rank(), None, hvd.size())
with torch.no_grad():
    right = (model(images[mine]).argmax(1) == labels[mine]).sum().float()
count = torch.tensor(float(len(labels[mine])))
accuracy = hvd.allreduce(right, name="right", op=hvd.Sum) / hvd.allreduce(count, name="count", op=hvd.Sum)
print(f"rank {hvd.rank()} of {hvd.size()}: accuracy {accuracy:.4f}", flush=True)
