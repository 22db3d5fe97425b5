#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""DDP with codecs: it learns, resumes with the same bits, and overflows are seen by all."""
import copy
import dataclasses
import os
import signal
import unittest

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import hocket.torch
from torch_ranks import all_are_past, on_ranks

os.environ["HOCKET_COMPRESSION"] = "always"  # in shared memory, too, where it does not pay

STEPS = 30
# One of each kind of docs/codecs.md, and of what they keep.
CODECS = ("fp16", "bf16", "fp8", "int8", "int6", "int3", "int2", "qsgd", "terngrad", "natural", "sign", "sign:feedback=both",
          "bounded:error=0.001", "topk:ratio=0.1", "topk:ratio=0.1,select=sampled", "topk:ratio=0.1,feedback=ef21",
          "threshold:least=0.001", "randomk:ratio=0.2", "blocksparse", "shared", "powersgd", "dgc:ratio=0.1", "auto:error=0.01")


def data(step):
    generator = torch.Generator().manual_seed(1000 * step + dist.get_rank())
    x = torch.randn(32, 20, generator=generator)
    return x, (x[:, :4].sum(1) > 0).long()


def make(specification, by_hook=False, **options):
    torch.manual_seed(7)
    # Several buckets, and a tensor in channels_last order.
    model = torch.nn.Sequential(torch.nn.Unflatten(1, (4, 5, 1)), torch.nn.Conv2d(4, 8, (2, 1)), torch.nn.ReLU(),
                                torch.nn.Flatten(), torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
    model = DistributedDataParallel(model.to(memory_format=torch.channels_last), bucket_cap_mb=0.005)
    hook = None
    if by_hook or specification is not None:
        hook = hocket.torch.ddp_hook(specification, **options)
        model.register_comm_hook(None, hook)
    if specification and specification.startswith("dgc"):  # has momentum of its own, which ends where a value is sent
        return model, hook, torch.optim.SGD(model.parameters(), lr=0.6)
    return model, hook, torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)


def step(model, optimizer, number):
    x, y = data(number)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def learns(specification, options):
    model, hook, optimizer = make(specification, **options)
    losses = [step(model, optimizer, number) for number in range(STEPS)]
    first, last = sum(losses[:5]), sum(losses[-5:])
    assert last < 0.8 * first, f"{specification}: the loss went from {first / 5} to {last / 5}"
    mine = torch.cat([p.detach().flatten() for p in model.parameters()])
    theirs = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(theirs, mine)
    assert all(torch.equal(mine, other) for other in theirs), f"{specification}: ranks went different ways"
    if hook is not None:
        hook.close()
    return mine.tolist()


def resumes(specification):
    model, hook, optimizer = make(specification)
    for number in range(5):
        step(model, optimizer, number)
    saved = copy.deepcopy((model.module.state_dict(), hook.state_dict(), optimizer.state_dict()))
    straight = [step(model, optimizer, number) for number in range(5, 12)]
    hook.close()
    model, hook, optimizer = make(specification)
    for target, state in zip((model.module, hook, optimizer), saved):
        target.load_state_dict(state)
    resumed = [step(model, optimizer, number) for number in range(5, 12)]
    assert straight == resumed, f"{straight} became {resumed}"
    hook.close()
    model, hook, optimizer = make(specification)
    for target, state in zip((model.module, optimizer), (saved[0], saved[2])):
        target.load_state_dict(state)
    without = [step(model, optimizer, number) for number in range(5, 12)]
    assert straight != without, "what error feedback keeps changes nothing"
    hook.close()


def overflows():
    model, hook, optimizer = make("topk:ratio=0.1")
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    scales = []
    for number in range(6):
        x, y = data(number)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        if number == 2 and dist.get_rank() == 1:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    assert scales == [4.0, 4.0, 2.0, 2.0, 2.0, 2.0], scales
    assert all(torch.isfinite(p).all() for p in model.parameters())
    hook.close()


def accumulates():
    model, hook, optimizer = make("fp16")
    x, y = data(0)
    with model.no_sync():
        torch.nn.functional.cross_entropy(model(x), y).backward()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    hook.close()


def refuses():
    try:
        hocket.torch.ddp_hook("topk:ratoi=1")
    except ValueError as error:
        assert "ratoi" in str(error), error
    else:
        raise AssertionError("a wrong word was taken")


def refuses_gradients():
    """Of a type that the codec does not take; and anything when it was closed. Each error names rank and gradient."""
    model, hook = DistributedDataParallel(torch.nn.Linear(4, 4, dtype=torch.float64)), hocket.torch.ddp_hook("int8")
    model.register_comm_hook(None, hook)
    name = f"ddp_hook('int8') on rank {dist.get_rank()}"
    for words in ((name, "gradient of parameter 0, 16 elements of torch.float64", "does not take float64"),
                  (name, "it was closed")):
        try:
            model(torch.ones(2, 4, dtype=torch.float64)).sum().backward()
        except RuntimeError as error:
            assert all(word in str(error) for word in words), error
        else:
            raise AssertionError(f"nothing was raised with {words}")
        hook.close()


def refuses_states():
    """Of another codec, or of none."""
    hook = hocket.torch.ddp_hook("int8")
    for state in ({}, {"codec": "int4", "state": hook.state_dict()["state"]}):
        try:
            hook.load_state_dict(state)
        except ValueError as error:
            assert f"ddp_hook('int8') on rank {dist.get_rank()}: the state is of codec" in str(error), error
        else:
            raise AssertionError(f"nothing was raised with {state}")
    hook.load_state_dict(hook.state_dict())
    hook.close()


def refuses_gradients_as_they_are():
    """Also without a codec, and of sparse ones."""
    name = f"ddp_hook(None) on rank {dist.get_rank()}: gradient of parameter 0"
    for layer, x, words in ((torch.nn.Linear(4, 4), torch.ones(2, 4), f"{name} to parameter 1, 20 elements of torch.float32: "),
                            (torch.nn.Embedding(4, 2, sparse=True), torch.tensor([1]), f"{name}, 8 elements of torch.float32: ")):
        model, hook = DistributedDataParallel(layer), hocket.torch.ddp_hook(None)
        model.register_comm_hook(None, hook)
        hook._communicator.revoke()
        try:
            model(x).sum().backward()
        except RuntimeError as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"nothing was raised with {words}")


def dies_in_backward():
    model, _, optimizer = make("int8")
    step(model, optimizer, 0)
    all_are_past()
    if dist.get_rank() == 1:
        model.module[1].weight.register_hook(lambda _: os.kill(os.getpid(), signal.SIGKILL))
    try:
        step(model, optimizer, 1)
    except RuntimeError as error:
        assert "rank 1" in str(error) and "ddp_hook('int8') on rank 0: gradient of parameter" in str(error), error
        return True
    raise AssertionError("the death of rank 1 went unnoticed")


def sparse_gradients(specification):
    """As without a hook, while another gradient of the same model is encoded."""
    gradients = []
    for by_hook in (False, True):
        torch.manual_seed(7)
        model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Embedding(9, 3, sparse=True), torch.nn.Linear(3, 2)))
        hook = hocket.torch.ddp_hook(specification) if by_hook else None
        if by_hook:
            model.register_comm_hook(None, hook)
        # Ranks have different numbers of rows, and one has none in the second step.
        for tokens in ([1, 2, 2][:2 + dist.get_rank()], [4] * dist.get_rank()):
            model.zero_grad()
            model(torch.tensor(tokens, dtype=torch.int64)).sum().backward()
            gradients.append(model.module[0].weight.grad.to_dense())
        if by_hook:
            hook.close()
    without, with_hook = torch.stack(gradients[:2]), torch.stack(gradients[2:])
    assert without.abs().sum() > 0
    torch.testing.assert_close(with_hook, without)


def profiles():
    model, hook, optimizer = make(None, by_hook=True)
    for number in range(3):
        step(model, optimizer, number)
    profile = hook.profile()
    assert profile.steps == 3 and profile.communication > 0 and profile.exposed > 0 and 0 <= profile.hidden <= 1, profile
    waited = dataclasses.replace(profile, exposed=2 * profile.communication)  # for the thread to wake up
    assert waited.hidden == 0, waited
    hook.load_state_dict(hook.state_dict())
    hook.close()


def raises():
    """What goes wrong on the hook's thread is what backward raises."""
    def wrong(state, bucket):
        raise ValueError(f"no {state} of bucket {bucket.index()}")

    model, _, optimizer = make(None)
    model.register_comm_hook("love", hocket.torch.in_order(wrong))
    try:
        step(model, optimizer, 0)
    except (RuntimeError, ValueError) as error:
        assert "no love of bucket 0" in str(error), error
    else:
        raise AssertionError("nothing was raised")


class Hooks(unittest.TestCase):
    def test_learn(self):
        for specification, options in (*((codec, {}) for codec in CODECS), ("int4:scale=minmax", {"error_feedback": True})):
            with self.subTest(specification):
                on_ranks(2, learns, specification, options)

    def test_lossless_is_no_codec(self):
        self.assertEqual(on_ranks(2, learns, "lossless", {}), on_ranks(2, learns, None, {}))

    def test_no_codec(self):
        self.assertEqual(on_ranks(2, learns, None, {"by_hook": True}), on_ranks(2, learns, None, {}))

    def test_profile(self):
        on_ranks(2, profiles)

    def test_error_on_the_thread(self):
        on_ranks(2, raises)

    def test_work_with_another_backend(self):
        on_ranks(2, learns, "topk:ratio=0.1", {}, backend="gloo")

    def test_resume(self):
        for specification in ("topk:ratio=0.05", "int8", "powersgd", "dgc:ratio=0.05", "topk:ratio=0.1,feedback=ef21"):
            with self.subTest(specification):
                on_ranks(2, resumes, specification)

    def test_overflow(self):
        on_ranks(2, overflows)

    def test_accumulation(self):
        on_ranks(2, accumulates)

    def test_refusals(self):
        on_ranks(2, refuses)
        on_ranks(2, refuses_gradients)
        on_ranks(2, refuses_gradients_as_they_are)
        on_ranks(2, refuses_states)

    def test_a_rank_that_dies_in_backward_is_named(self):
        self.assertEqual(on_ranks(2, dies_in_backward, may_die=[1]), [True, None])

    def test_sparse_gradients(self):
        for specification in (None, "int8"):
            with self.subTest(specification):
                on_ranks(2, sparse_gradients, specification)


if __name__ == "__main__":
    unittest.main(verbosity=2)
