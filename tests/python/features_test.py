#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""What users of PyTorch's parallel training turn on, each beside gloo with the same seed: options of DDP, uneven inputs, other
optimizers and hooks, FSDP with mixed precision, compiled models and collectives, groups of groups, workers that restart."""
import copy
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

import hocket.torch  # registers the backend
from torch_ranks import on_ranks
from training_test import Transformer, train

TORCHRUN = pathlib.Path(sys.executable).parent / "torchrun"


def seeded(model):
    torch.manual_seed(3)
    return model()


def losses_of(model, optimizer=None):
    return train("transformer", model, optimizer or torch.optim.SGD(model.parameters(), lr=0.1), dist.get_rank())


class Unused(nn.Module):
    """Has parameters that no output depends on."""

    def __init__(self):
        super().__init__()
        self.used, self.unused = Transformer(), nn.Linear(3, 3)

    def forward(self, tokens):
        return self.used(tokens)


def ddp_with(**options):
    model = Unused if "find_unused_parameters" in options else Transformer
    return losses_of(DistributedDataParallel(seeded(model), bucket_cap_mb=0.02, **options))


def hooks_of_torch():
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    losses = []
    for hook in (default_hooks.allreduce_hook, default_hooks.fp16_compress_hook):
        model = DistributedDataParallel(seeded(Transformer), bucket_cap_mb=0.02)
        model.register_comm_hook(None, hook)
        losses += losses_of(model)
    return losses


def uneven_inputs(sharded):
    """Ranks with less data go on answering the others' calls."""
    from torch.distributed.algorithms.join import Join
    from torch.distributed.optim import ZeroRedundancyOptimizer
    model = DistributedDataParallel(seeded(lambda: nn.Linear(4, 4)))
    optimizer = (ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.1) if sharded
                 else torch.optim.SGD(model.parameters(), lr=0.1))
    losses = []
    with Join([model, optimizer] if sharded else [model]):
        for step in range(3 + dist.get_rank()):
            optimizer.zero_grad()
            loss = model(torch.full((2, 4), float(step))).sum()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses + [parameter.sum().item() for parameter in model.parameters()]


def local_sgd():
    from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from torch.distributed.optim import PostLocalSGDOptimizer
    model = DistributedDataParallel(seeded(Transformer))
    alone, _ = dist.new_subgroups(1)
    model.register_comm_hook(post_localSGD_hook.PostLocalSGDState(None, alone, start_localSGD_iter=2),
                             post_localSGD_hook.post_localSGD_hook)
    averager = PeriodicModelAverager(period=2, warmup_steps=2)
    return losses_of(model, PostLocalSGDOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), averager))


def fsdp1():
    from torch.distributed.fsdp import FullyShardedDataParallel
    model = FullyShardedDataParallel(seeded(Transformer), device_id=torch.device("cpu"), use_orig_params=True)
    return losses_of(model, torch.optim.Adam(model.parameters(), lr=0.01))


def fsdp2_in_mixed_precision():
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    model = seeded(Transformer)
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)),
                mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = losses_of(model, optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.01).full_tensor().item()
    assert norm > 0.01, f"nothing was clipped: {norm}"
    optimizer.step()
    return losses + [norm] + [each.full_tensor().sum().item() for each in model.parameters()]


def fsdp2_on_the_host():
    """Parameters that wait on the CPU, and stay whole between forward and backward."""
    from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard
    model = seeded(Transformer)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    fully_shard(model.layers, mesh=mesh, reshard_after_forward=False)
    fully_shard(model, mesh=mesh, offload_policy=CPUOffloadPolicy(pin_memory=False))
    return losses_of(model, torch.optim.Adam(model.parameters(), lr=0.01))


def fsdp2_of_tensor_parallel():
    """On a 2 x 2 mesh."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    model = seeded(lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)))
    model = parallelize_module(model, mesh["tensor"], {"1": ColwiseParallel(), "3": RowwiseParallel()})
    fully_shard(model, mesh=mesh["data"])
    return train("cnn", model, torch.optim.SGD(model.parameters(), lr=0.1), mesh["data"].get_local_rank())


def sequence_parallel():
    """With the loss divided, too."""
    from torch.distributed.tensor import Shard, distribute_tensor
    from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel, SequenceParallel, loss_parallel,
                                                   parallelize_module)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = seeded(lambda: nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16), nn.Linear(16, 12)))
    plan = {"0": SequenceParallel(), "1": ColwiseParallel(input_layouts=Shard(1)), "3": RowwiseParallel(),
            "4": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)}
    model = parallelize_module(model, mesh, plan)
    x, y = torch.randn(2, 8, 16), torch.randint(12, (16,))
    with loss_parallel():
        loss = nn.functional.cross_entropy(model(distribute_tensor(x, mesh, [Shard(1)])).flatten(0, 1), y)
        loss.backward()
    return [loss.full_tensor().item(), *(each.grad.full_tensor().sum().item() for each in model[3].parameters())]


def loaded_from_rank_0():
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
    from torch.distributed.fsdp import fully_shard
    whole = seeded(Transformer).state_dict()
    model = Transformer()
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    set_model_state_dict(model, copy.deepcopy(whole) if dist.get_rank() == 0 else {},
                         options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))
    gathered = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    assert dist.get_rank() != 0 or all(torch.equal(whole[name], gathered[name]) for name in whole)
    return losses_of(model)


def zero_bubble_pipeline():
    from torch.distributed.pipelining import PipelineStage, ScheduleInterleavedZeroBubble
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(3)
    parts = [nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(2 * size)]
    stages = [PipelineStage(parts[place], place, 2 * size, torch.device("cpu")) for place in (rank, rank + size)]
    x, y, losses = torch.randn(8, 16), torch.randn(8, 16), []
    ScheduleInterleavedZeroBubble(stages, 4, loss_fn=nn.functional.mse_loss).step(
        *[x] if rank == 0 else [], **{"target": y, "losses": losses} if rank == size - 1 else {})
    return [loss.item() for loss in losses] + [each.grad.sum().item() for stage in stages for each in stage.submod.parameters()]


def experts():
    """Tokens to the experts of other ranks, and gradients back."""
    import torch.distributed._functional_collectives as functional
    rank, size = dist.get_rank(), dist.get_world_size()
    tokens = torch.arange(6.0).reshape(6, 1).requires_grad_()
    sent = [1 + rank, 5 - rank]  # of two ranks
    received = [1 + peer if rank == 0 else 5 - peer for peer in range(size)]
    there = functional.all_to_all_single_autograd(tokens, received, sent, dist.group.WORLD)
    (there * (1 + rank)).sum().backward()
    return there.flatten().tolist() + tokens.grad.flatten().tolist()


def saved_beside_training(folder):
    """The thread that saves has a group of its own: calls of two threads in one group come in any order."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_model_state_dict
    from torch.distributed.fsdp import fully_shard
    model = seeded(Transformer)
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    saved = copy.deepcopy(get_model_state_dict(model))
    path = os.path.join(folder, dist.get_backend())
    saving = dcp.async_save({"model": saved}, checkpoint_id=path, process_group=dist.new_group())
    losses = losses_of(model, optimizer)
    saving.result()
    loaded = {"model": get_model_state_dict(model)}
    dcp.load(loaded, checkpoint_id=path)
    for name, value in loaded["model"].items():
        assert torch.equal(value.to_local(), saved[name].to_local()), name
    return losses


def interleaved_pipeline():
    from torch.distributed.pipelining import PipelineStage, ScheduleInterleaved1F1B
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(3)
    parts = [nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(2 * size)]
    stages = [PipelineStage(parts[place], place, 2 * size, torch.device("cpu")) for place in (rank, rank + size)]
    schedule = ScheduleInterleaved1F1B(stages, 4, loss_fn=nn.functional.mse_loss)
    losses = []
    for step in range(3):
        torch.manual_seed(step)
        x, y = torch.randn(8, 16), torch.randn(8, 16)
        schedule.step(*[x] if rank == 0 else [], **{"target": y, "losses": losses} if rank == size - 1 else {})
    return [loss.item() for loss in losses]


def compiled_collectives(backend):
    import torch.distributed._functional_collectives as functional
    group = dist.group.WORLD

    def calculate(x):
        total = functional.all_reduce(x * 2, "sum", group)
        everybodys = functional.all_gather_tensor(total, 0, group)
        mine = functional.reduce_scatter_tensor(everybodys, "sum", 0, group)
        return mine.sum() + functional.all_to_all_single(everybodys, None, None, group).sum()

    def in_place(x):
        y = x * 2
        dist.all_reduce(y)
        return y.sum()

    x = torch.arange(4.0) + dist.get_rank()
    results = [torch.compile(each, backend=backend, fullgraph=True)(x).item() for each in (calculate, in_place)]
    assert results == [calculate(x).item(), in_place(x).item()]
    return results


def compiled_ddp():
    return losses_of(DistributedDataParallel(torch.compile(seeded(Transformer), backend="aot_eager")))


def differentiated():
    import torch.distributed.nn.functional as functional
    rank, size = dist.get_rank(), dist.get_world_size()
    x = torch.arange(float(size), requires_grad=True)
    counts = [(rank + peer) % 3 for peer in range(size)]
    exchanged = functional.all_to_all_single(torch.empty(sum(counts)), (torch.ones(sum(counts)) * rank).requires_grad_(),
                                             counts, counts)
    (functional.all_reduce(x * (rank + 1)) ** 2).sum().backward()
    return x.grad.tolist() + torch.cat(functional.all_gather(x)).tolist() + exchanged.tolist()


class _Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, place):
        return torch.tensor([float(place)])


def beside_forked_workers():
    total = 0.0
    for _ in range(2):
        for batch in torch.utils.data.DataLoader(_Numbers(), batch_size=4, num_workers=2):
            dist.all_reduce(batch)
            total += batch.sum().item()
    return [total]


def redistributed():
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    whole = torch.randn(7, 5)
    by_rows = distribute_tensor(whole, mesh, [Shard(0)])
    assert torch.equal(by_rows.redistribute(mesh, [Shard(1)]).redistribute(mesh, [Replicate()]).to_local(), whole)
    summed = DTensor.from_local(torch.ones(6, 2), mesh, [Partial()]).redistribute(mesh, [Shard(0)])
    product = by_rows @ distribute_tensor(whole.t().contiguous(), mesh, [Replicate()])
    return [summed.full_tensor().sum().item(), product.full_tensor().sum().item()]


RESTART = r"""
import os, sys, torch, torch.distributed as dist
import hocket.distributed
dist.init_process_group("hocket")
x = torch.ones(1)
dist.all_reduce(x)
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and dist.get_rank() == 1: os._exit(7)
dist.all_reduce(x)
sys.stdout.write(f"attempt {os.environ['TORCHELASTIC_RESTART_COUNT']} rank {dist.get_rank()} sum {x.item()}\n")  # in one piece
dist.destroy_process_group()
"""


class Features(unittest.TestCase):
    def agree(self, body, *arguments, size=2, **options):
        """With two ranks there is one order of adding: the same bits as gloo."""
        ours, gloos = (on_ranks(size, lambda: body(*arguments, **options), backend=backend) for backend in ("hocket", "gloo"))
        self.assertEqual(ours, gloos)

    def test_options_of_ddp(self):
        for option in ("static_graph", "find_unused_parameters", "gradient_as_bucket_view"):
            with self.subTest(option):
                self.agree(ddp_with, **{option: True})

    def test_hooks_of_torch(self):
        self.agree(hooks_of_torch)

    def test_uneven_inputs(self):
        for sharded in (False, True):
            with self.subTest(sharded=sharded):
                self.agree(uneven_inputs, sharded)

    def test_other_ways_to_train(self):
        for body in (local_sgd, fsdp1, fsdp2_in_mixed_precision, fsdp2_on_the_host, loaded_from_rank_0, sequence_parallel,
                     interleaved_pipeline, zero_bubble_pipeline, differentiated, experts, beside_forked_workers, redistributed):
            with self.subTest(body.__name__):
                self.agree(body)

    def test_two_ways_at_once(self):
        self.agree(fsdp2_of_tensor_parallel, size=4)  # no group has more than two ranks

    def test_compiled(self):
        for body, arguments in ((compiled_collectives, ["aot_eager"]), (compiled_collectives, ["inductor"]), (compiled_ddp, [])):
            with self.subTest(body.__name__, arguments=arguments):
                self.agree(body, *arguments)

    def test_saved_beside_training(self):
        with tempfile.TemporaryDirectory() as folder:
            self.agree(saved_beside_training, folder)

    def test_torchrun_starts_anew(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "restart.py"
            script.write_text(RESTART, encoding="utf-8")
            done = subprocess.run([str(TORCHRUN), "--nproc-per-node", "2", "--max-restarts", "1", "--monitor-interval", "0.1",
                                   str(script)], capture_output=True, text=True, timeout=300, check=False)
        said = sorted(line for line in done.stdout.splitlines() if line.startswith("attempt"))
        self.assertEqual(said, [f"attempt 1 rank {rank} sum 4.0" for rank in (0, 1)], done.stderr[-3000:])
        self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
