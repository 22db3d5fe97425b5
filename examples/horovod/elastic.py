# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Training that survives the loss of a worker, as Horovod's elastic examples: a line is fitted to points. Sixteen weights
make its slope, so that a codec has something to leave out.

    hocket run -n 3 --min 2 python examples/horovod/elastic.py
    hocket run -n 3 --min 2 python examples/horovod/elastic.py --die 1@20
"""
import argparse
import os
import time

import torch

import hocket.torch as hvd

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--die", default="", help="RANK@STEP: that rank is killed then")
parser.add_argument("--codec", default="", help="gradients travel encoded, with error feedback: sign, topk:ratio=0.1, ...")
parser.add_argument("--pause", type=float, default=0.02, help="seconds that a step takes")
arguments = parser.parse_args()

if arguments.codec:
    os.environ.setdefault("HOCKET_COMPRESSION", "always")  # it would not pay for so few values
hvd.init()
torch.manual_seed(1)
SHARES = torch.linspace(0.2, 1, 16)
model = torch.nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
compression = hvd.Compression.codec(arguments.codec, feedback=True) if arguments.codec else hvd.Compression.none
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), compression=compression)
points = torch.linspace(-1, 1, 24).reshape(-1, 1)
victim = f"{hvd.rank()}@" if "HOCKET_NEWCOMER" not in os.environ else None


@hvd.elastic.run
def train(state):
    while state.step < arguments.steps:
        if victim and arguments.die == f"{victim}{state.step}":
            os.kill(os.getpid(), 9)
        mine = points[hvd.rank()::hvd.size()]
        state.optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(state.model(mine * SHARES), 3 * mine + 1)
        loss.backward()
        state.optimizer.step()
        time.sleep(arguments.pause)
        state.step += 1
        state.sizes = state.sizes + [hvd.size()]
        if state.step % 5 == 0:
            state.commit()
    return loss.item()


state = hvd.elastic.TorchState(model=model, optimizer=optimizer, compression=compression, step=0, sizes=[])
state.register_reset_callbacks([lambda: print(f"now {hvd.size()} ranks, from step {state.step}", flush=True)])
final = train(state)
print(f"rank {hvd.rank()} of {hvd.size()}: {state.step} steps, loss {final:.6f}, "
      f"slope {(model.weight @ SHARES).item():.6f}, "
      f"ranks at a step {sorted(set(state.sizes))}", flush=True)
hvd.shutdown()
