#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""The package `hocket` on torch tensors."""
import unittest

import torch

import hocket
from bindings_test import on_ranks


class Tensors(unittest.TestCase):
    def test_types(self):
        def body(comm):
            for kind in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32,
                         torch.int8, torch.uint8):
                tensor = torch.full((2, 3), comm.rank, dtype=kind)
                self.assertIs(comm.all_reduce(tensor), tensor)
                self.assertEqual(tensor.tolist(), [[3] * 3] * 2, kind)

        on_ranks(body)

    def test_refusals(self):
        def body(comm):
            for wrong, why in ((torch.ones(2, 3).T, r"send: .*\(3, 2\) is not contiguous"),
                               (torch.ones(2, device="meta"), "send: .*on meta"),
                               (torch.ones(2).to_sparse(), "send: .*sparse"),
                               (torch.ones(2, dtype=torch.complex64), "send: .*complex64")):
                with self.assertRaisesRegex(hocket.InvalidArgument, why):
                    comm.all_reduce(wrong)

        on_ranks(body)


if __name__ == "__main__":
    unittest.main(verbosity=2)
