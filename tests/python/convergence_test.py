# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Training with compressed gradients: scikit-learn's digits, eight ranks, a perceptron of 64-64-10, the same steps for all.

With error feedback the final loss stays near that of uncompressed training; without it, codecs that leave most of a
gradient behind end far from it, else this test could not see a feedback that is broken. And ranks that are killed and go
on from what they saved end with the same bits as ranks that were not.

convergence_test.py train FOLDER STEPS KILL_AFTER is one of the killed ranks.
"""
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

import numpy

import hocket
from threaded_ranks import on_threads

os.environ["HOCKET_COMPRESSION"] = "always"  # in shared memory, too, where it does not pay

try:
    from sklearn.datasets import load_digits
except ImportError:
    load_digits = None

PORTS = itertools.count(30000 + os.getpid() % 2000)
RANKS, STEPS, RATE, BATCH, SEEDS = 8, 600, 0.5, 32, 2


class Perceptron:
    """Weights as (outputs, inputs), so that all matrices have 64 columns."""

    def __init__(self, seed):
        random = numpy.random.default_rng(seed)
        self.weights = {"hidden": random.normal(0, 0.125, (64, 64)).astype(numpy.float32),
                        "hidden.bias": numpy.zeros(64, numpy.float32),
                        "output": random.normal(0, 0.125, (10, 64)).astype(numpy.float32),
                        "output.bias": numpy.zeros(10, numpy.float32)}

    def _forward(self, images):
        hidden = numpy.maximum(images @ self.weights["hidden"].T + self.weights["hidden.bias"], 0)
        scores = hidden @ self.weights["output"].T + self.weights["output.bias"]
        shares = numpy.exp(scores - scores.max(1, keepdims=True))
        return hidden, shares / shares.sum(1, keepdims=True)

    def loss(self, images, digits):
        """The mean cross entropy."""
        return float(-numpy.log(self._forward(images)[1][numpy.arange(len(digits)), digits] + 1e-30).mean())

    def gradients(self, images, digits):
        """Of the loss, by name."""
        hidden, shares = self._forward(images)
        shares[numpy.arange(len(digits)), digits] -= 1
        shares /= len(digits)
        back = (shares @ self.weights["output"]) * (hidden > 0)
        return {"hidden": back.T @ images, "hidden.bias": back.sum(0), "output": shares.T @ hidden,
                "output.bias": shares.sum(0)}


def dataset():
    """Images scaled to 0..1, and their digits."""
    data = load_digits()
    return (data.data / 16).astype(numpy.float32), data.target


def train(comm, images, digits, steps, seed, codec=None, *, feedback=True, model=None, first=0, after=None):
    """This rank's steps; `after`(step, model) hears of each."""
    model = model or Perceptron(seed)
    mine = numpy.arange(comm.rank, len(digits), comm.size)
    for step in range(first, steps):
        batch = numpy.random.default_rng((seed, step, comm.rank)).choice(mine, BATCH)
        for name, gradient in model.gradients(images[batch], digits[batch]).items():
            gradient = numpy.ascontiguousarray(gradient, numpy.float32)
            if codec is None:
                comm.all_reduce(gradient, op="avg")
            else:
                comm.all_reduce(gradient, op="avg", codec=codec, key=name if feedback else None)
            model.weights[name] -= RATE * gradient
        if after is not None:
            after(step, model)
    return model


@unittest.skipIf(load_digits is None, "scikit-learn is not there: ./dev soak installs it")
class Convergence(unittest.TestCase):
    """Final losses against that of training without a codec."""

    @classmethod
    def setUpClass(cls):
        cls.images, cls.digits = dataset()
        cls.dense = cls.final_loss(None)
        print(f"without a codec: loss {cls.dense:.4f}")

    @classmethod
    def final_loss(cls, specification, feedback=True):
        """Over all images, the mean over seeds. All ranks end with the same weights."""
        losses = []
        for seed in range(SEEDS):
            models = {}

            def body(comm, seed=seed, models=models):
                codec = None if specification is None else hocket.Codec(specification)
                models[comm.rank] = train(comm, cls.images, cls.digits, STEPS, seed, codec, feedback=feedback)

            on_threads(body, RANKS)
            for model in models.values():
                for name, weights in model.weights.items():
                    assert numpy.array_equal(weights, models[0].weights[name])
            losses.append(models[0].loss(cls.images, cls.digits))
        return sum(losses) / SEEDS

    def ratio(self, specification, feedback=True):
        """To the dense loss."""
        ratio = self.final_loss(specification, feedback) / self.dense
        print(f"{specification}{'' if feedback else ', nothing kept'}: {ratio:.3f} of the loss without a codec")
        return ratio

    def test_with_feedback_the_loss_is_that_of_dense_training(self):
        """One element in a hundred, one bit, rank one, four bits."""
        for specification in ("topk:ratio=0.01", "sign:block=256", "powersgd:rank=1,columns=64", "int4"):
            with self.subTest(specification):
                self.assertLessEqual(self.ratio(specification), 1.10)

    def test_with_one_element_in_a_thousand_it_is_not_far(self):
        """Half as much again at most."""
        self.assertLessEqual(self.ratio("topk:ratio=0.001"), 1.5)

    def test_without_feedback_it_is_twice_as_large(self):
        """So the test above sees a feedback that does nothing."""
        for specification in ("topk:ratio=0.01", "sign:block=256", "powersgd:rank=1,columns=64"):
            with self.subTest(specification):
                self.assertGreaterEqual(self.ratio(specification, feedback=False), 2)


def synthetic():
    """Images without scikit-learn."""
    random = numpy.random.default_rng(7)
    return random.random((512, 64), dtype=numpy.float32), random.integers(0, 10, 512)


def rank_that_may_be_killed(specification, folder, steps, kill_after):
    """Goes on from the rank's checkpoint, saves one after each step, and kills itself after a step."""
    images, digits = synthetic()
    with hocket.Communicator.from_environment(timeout=60) as comm:
        codec = hocket.Codec(specification)
        path = pathlib.Path(folder) / f"rank{comm.rank}.npz"
        model, first = None, 0
        if path.exists():
            saved = numpy.load(path)
            codec.load_state(saved["state"].tobytes())
            model, first = Perceptron(0), int(saved["step"]) + 1
            model.weights = {name: saved[name] for name in model.weights}

        def after(step, model):
            partial = path.with_suffix(".partial.npz")
            numpy.savez(partial, state=numpy.frombuffer(codec.save_state(), numpy.uint8), step=step, **model.weights)
            partial.rename(path)
            comm.barrier()  # the ranks' checkpoints are of the same step
            if step == kill_after:
                os.kill(os.getpid(), signal.SIGKILL)

        train(comm, images, digits, steps, 0, codec, model=model, first=first, after=after)


class Resume(unittest.TestCase):
    """Saved, killed, loaded, gone on."""

    STEPS = 12

    def run_ranks(self, specification, folder, kill_after):
        """Two processes; their exit statuses."""
        address = f"127.0.0.1:{next(PORTS)}"
        ranks = [subprocess.Popen([sys.executable, __file__, "train", specification, folder, str(self.STEPS),
                                   str(kill_after)], stderr=subprocess.DEVNULL if kill_after >= 0 else None,
                                  env={**os.environ, "HOCKET_RANK": str(rank), "HOCKET_SIZE": "2",
                                       "HOCKET_ADDRESS": address})
                 for rank in range(2)]
        return [rank.wait(timeout=300) for rank in ranks]

    def test_killed_ranks_go_on_with_the_same_bits(self):
        """Of a codec with feedback, and of programs with several vectors of state."""
        for specification in ("topk:ratio=0.05", "sign", "powersgd:rank=1", "dgc:ratio=0.05"):
            with self.subTest(specification), tempfile.TemporaryDirectory() as straight, \
                    tempfile.TemporaryDirectory() as killed:
                self.assertEqual(self.run_ranks(specification, straight, -1), [0, 0])
                # Who has not left the barrier yet may die of the other's death.
                self.assertIn(-signal.SIGKILL, self.run_ranks(specification, killed, 5))
                self.assertEqual(self.run_ranks(specification, killed, -1), [0, 0])
                for rank in range(2):
                    ends = [numpy.load(pathlib.Path(folder) / f"rank{rank}.npz") for folder in (straight, killed)]
                    self.assertEqual(int(ends[1]["step"]), self.STEPS - 1)
                    for name in ends[0].files:
                        self.assertTrue(numpy.array_equal(ends[0][name], ends[1][name]), f"rank {rank}, {name}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["train"]:
        rank_that_may_be_killed(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        unittest.main()
