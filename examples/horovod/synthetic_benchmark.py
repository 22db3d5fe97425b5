# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Horovod's synthetic benchmark: images a second of a net on random data.

    hocket run -n 2 python examples/horovod/synthetic_benchmark.py --codec int8
"""
import argparse
import statistics
import time

import torch
from torch.nn import functional

import hocket.torch as hvd

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--width", type=int, default=256)
parser.add_argument("--iterations", type=int, default=5)
parser.add_argument("--batches", type=int, default=5, help="of an iteration")
parser.add_argument("--codec", default="", help='as "int8" or "topk:ratio=0.01"')
arguments = parser.parse_args()

hvd.init()
torch.set_num_threads(1)
layers = [torch.nn.Conv2d(3, 16, 3, stride=2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(),
          torch.nn.Linear(256, arguments.width)]
for _ in range(8):
    layers += [torch.nn.ReLU(), torch.nn.Linear(arguments.width, arguments.width)]
model = torch.nn.Sequential(*layers, torch.nn.Linear(arguments.width, 10))
compression = hvd.Compression.codec(arguments.codec) if arguments.codec else hvd.Compression.none
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), compression=compression)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
data = torch.randn(arguments.batch_size, 3, 64, 64)
target = torch.randint(10, (arguments.batch_size,))


def batch():
    optimizer.zero_grad()
    functional.cross_entropy(model(data), target).backward()
    optimizer.step()


for _ in range(3):
    batch()
rates = []
for _ in range(arguments.iterations):
    begin = time.perf_counter()
    for _ in range(arguments.batches):
        batch()
    rates.append(arguments.batch_size * arguments.batches / (time.perf_counter() - begin))
if hvd.rank() == 0:
    rate, spread = statistics.mean(rates), statistics.pstdev(rates)
    print(f"images a second on a rank: {rate:.1f} +- {spread:.1f}; on {hvd.size()} ranks: {hvd.size() * rate:.1f}")
