# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Reduction operations: the library's own by name, and made ones."""
from __future__ import annotations

from typing import Any, Union

from hocket._buffers import BOOL
from hocket._errors import Refusal
from hocket._library import call, choice_of

# hocketRedOp_t
OPERATIONS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4, "bit_and": 5, "bit_or": 6, "bit_xor": 7,
              "logical_and": 8, "logical_or": 9, "logical_xor": 10}
# As NumPy and torch have it, so that the result is one again.
_OF_TRUTH_VALUES = {"sum": "logical_or", "max": "logical_or", "prod": "logical_and", "min": "logical_and"}
Op = Union[str, "Operation"]


class Operation:
    """A reduction operation made by Communicator.create_operation or pre_mul_sum; close() frees it."""

    def __init__(self, communicator: Any, code: int, keep: object) -> None:
        self._communicator: Any = communicator
        self._keep = keep
        self.code = code

    def close(self) -> None:
        """Frees it. Operations under way are not disturbed."""
        if self._communicator is not None:
            communicator, self._communicator = self._communicator, None
            call("RedOpDestroy", self.code, communicator.handle)


def operation_code(op: Op, datatype: str = "") -> int:
    """As hocketRedOp_t, for elements of that type."""
    if isinstance(op, Operation):
        return op.code
    code = choice_of("op", op, OPERATIONS)
    if datatype != BOOL:
        return code
    if op == "avg":
        raise Refusal("op: truth values have no 'avg'")
    return OPERATIONS[_OF_TRUTH_VALUES.get(op, op)]
