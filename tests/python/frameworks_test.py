#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Scripts of HuggingFace Accelerate, of Lightning and of DeepSpeed, as their users write them, under torchrun on Hocket."""
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

DATA = """
import sys
def ran(*words):  # in one piece: both ranks write to one pipe at the same moment
    sys.stdout.write(" ".join(map(str, ("ran", *words))) + "\\n")

import torch, torch.distributed as dist
from torch import nn
import hocket.distributed  # an installed package needs no such line
torch.manual_seed(0)
rows = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randint(2, (64,)))
data = torch.utils.data.DataLoader(rows, batch_size=8)
"""

ACCELERATE = DATA + """
dist.init_process_group("hocket")
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
for x, y in data:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    accelerator.backward(loss)
    optimizer.step()
losses = accelerator.gather(loss.detach().reshape(1))
accelerator.wait_for_everyone()
ran(dist.get_backend(), type(model).__name__, len(losses))
dist.destroy_process_group()
"""

LIGHTNING = DATA + """
import lightning
from lightning.pytorch.strategies import DDPStrategy

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 2)

    def training_step(self, batch, _):
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.log("loss", loss, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

trainer = lightning.Trainer(accelerator="cpu", devices=2, max_epochs=2, logger=False, enable_progress_bar=False,
                            strategy=DDPStrategy(process_group_backend="hocket"))
trainer.fit(Model(), data)
ran(dist.get_backend(), "world", trainer.world_size)
"""


DEEPSPEED = DATA + """
import deepspeed, os, sys
deepspeed.init_distributed(dist_backend="hocket", verbose=False)
losses = {}
for stage in (1, 2):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 2))
    config = {"train_micro_batch_size_per_gpu": 8, "zero_optimization": {"stage": stage},
              "optimizer": {"type": "Adam", "params": {"lr": 0.02, "torch_adam": True}}}
    engine = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)[0]
    losses[stage] = []
    for _ in range(3):
        for x, y in data:
            loss = nn.functional.cross_entropy(engine(x), y)
            engine.backward(loss)
            engine.step()
            losses[stage].append(loss.item())
assert losses[1][-1] < losses[1][0], losses
ran(dist.get_backend(), "stages", *losses, "alike" if losses[1] == losses[2] else losses)
"""


class Frameworks(unittest.TestCase):
    def ran(self, script):
        """What the ranks printed."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "train.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(script)
            done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
                                   path], cwd=folder, check=False, text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT,
                                  env={**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu",
                                       "TORCH_EXTENSIONS_DIR": folder})  # what DeepSpeed compiles
        self.assertEqual(done.returncode, 0, done.stdout)
        return [line for line in done.stdout.splitlines() if line.startswith("ran ")]

    @unittest.skipUnless(importlib.util.find_spec("accelerate"), "accelerate is not installed")
    def test_accelerate(self):
        self.assertEqual(self.ran(ACCELERATE), 2 * ["ran hocket DistributedDataParallel 2"])

    @unittest.skipUnless(importlib.util.find_spec("deepspeed"), "deepspeed is not installed")
    def test_deepspeed(self):
        self.assertEqual(self.ran(DEEPSPEED), 2 * ["ran hocket stages 1 2 alike"])

    @unittest.skipUnless(importlib.util.find_spec("lightning"), "lightning is not installed")
    def test_lightning(self):
        self.assertEqual(self.ran(LIGHTNING), 2 * ["ran hocket world 2"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
