#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""The package `hocket` on arrays of JAX: they are sent from where they lie, and never written to."""
import os
import unittest

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    raise SystemExit(77)
import numpy

import hocket
from bindings_test import RANKS, on_ranks

ALL_TYPES = ("int8", "uint8", "int32", "uint32", "float16", "float32", "bfloat16", "float8_e4m3fn", "float8_e5m2")


class Arrays(unittest.TestCase):
    def test_every_type_is_sent(self):
        def body(comm):
            for kind in ALL_TYPES:
                mine = jnp.full((2, 3), comm.rank, kind)
                result = numpy.empty(mine.shape, mine.dtype)
                self.assertIs(comm.all_reduce(mine, result), result)
                self.assertEqual(result.tolist(), [[3] * 3] * 2, kind)
                self.assertEqual(mine.tolist(), [[comm.rank] * 3] * 2, kind)

        on_ranks(body)

    def test_booleans_are_bytes(self):
        def body(comm):
            everything = comm.all_gather(jnp.array([comm.rank == 1]), numpy.empty(RANKS, bool))
            self.assertEqual(everything.tolist(), [False, True, False])

        on_ranks(body)

    def test_a_sum_becomes_an_array_again(self):
        def body(comm):
            weights = jnp.arange(4.0)
            gradient = jax.grad(lambda w: (w * comm.rank).sum())(weights)
            mean = comm.all_reduce(gradient, numpy.empty_like(gradient), op="avg")
            self.assertEqual((weights - jnp.array(mean)).tolist(), [-1, 0, 1, 2])

        on_ranks(body)

    def test_what_is_not_computed_yet_is_waited_for(self):
        def body(comm):
            for kind in ("float32", "bfloat16"):
                ones = jnp.ones((300, 300), kind)
                product = jax.jit(lambda a: a @ a)(ones)
                result = comm.all_reduce(product, numpy.empty(product.shape, product.dtype), op="max")
                self.assertTrue((result == 300).all(), kind)

        on_ranks(body)

    def test_never_written_to(self):
        def body(comm):
            for kind in ALL_TYPES:
                mine = jnp.zeros(6, kind)
                parts = numpy.zeros(6 * RANKS, mine.dtype)
                for call in (lambda: comm.all_reduce(mine), lambda: comm.all_reduce(parts[:6], mine),
                             lambda: comm.recv(mine, 0), lambda: comm.all_gather(parts[:2], mine),
                             lambda: comm.reduce_scatter(parts, mine), lambda: comm.scatter(parts, mine),
                             lambda: comm.broadcast(mine, root=(comm.rank + 1) % RANKS)):
                    with self.assertRaisesRegex(hocket.InvalidArgument, f"rank {comm.rank}: .*JAX never changes"):
                        call()
                self.assertEqual(mine.tolist(), [0] * 6)

        on_ranks(body)

    def test_refusals(self):
        spread = jax.sharding.NamedSharding(jax.sharding.Mesh(jax.devices(), ("x",)), jax.sharding.PartitionSpec("x"))
        given_away = jnp.ones(2)
        given_away.delete()

        def body(comm):
            for wrong, why in ((jax.device_put(jnp.arange(4.0), spread), "send: ArrayImpl: .*sharded"),
                               (given_away, "send: the array of JAX was deleted or donated"),
                               (jnp.zeros(2, "int4"), "send: ArrayImpl: .*S4"),
                               (jnp.zeros(2, "uint16"), "send: elements of type uint16"),
                               (jnp.zeros(2, complex), "send: elements of type")):
                with self.assertRaisesRegex(hocket.InvalidArgument, f"rank {comm.rank}: all_reduce: {why}"):
                    comm.all_reduce(wrong, numpy.empty(2))
            with self.assertRaisesRegex(hocket.InvalidArgument, "all_reduce: send: .*Tracer"):
                jax.jit(lambda traced: comm.all_reduce(traced, numpy.empty(2)))(jnp.ones(2))

        on_ranks(body)


if __name__ == "__main__":
    unittest.main(verbosity=2)
