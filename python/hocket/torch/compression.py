# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""What happens to tensors on their way: nothing, a cast, or any of Hocket's codecs."""
import weakref

import torch

import hocket


class Compressor:
    """`compress` gives a tensor to send and a context; `decompress` takes the result and the context. `codec`: None, or
    a hocket.Codec that encodes every message of the collective itself; `feedback`: it keeps errors by the tensor's name."""

    codec = None
    feedback = False

    @classmethod
    def compress(cls, tensor):
        """As it is."""
        return tensor, None

    @classmethod
    def decompress(cls, tensor, ctx):
        """As it is."""
        del ctx
        return tensor


def compressor_of(value):
    """The value, which has to be one, maybe of the user's own."""
    if not hasattr(value, "compress") or not hasattr(value, "decompress"):
        raise hocket.InvalidArgument(f"compression: {value!r} is none, such as Compression.fp16")
    return value


class NoneCompressor(Compressor):
    """Nothing."""


class _CastCompressor(Compressor):
    type_name = ""

    @classmethod
    def compress(cls, tensor):
        smaller = tensor.to(getattr(torch, cls.type_name)) if tensor.is_floating_point() else tensor
        return smaller, tensor.dtype

    @classmethod
    def decompress(cls, tensor, ctx):
        return tensor.to(ctx)


class FP16Compressor(_CastCompressor):
    """Floats travel, and are summed, as float16."""
    type_name = "float16"


class BF16Compressor(_CastCompressor):
    """Floats travel, and are summed, as bfloat16."""
    type_name = "bfloat16"


# What these keep feedback of is also the other ranks' business.
_SHARED_FEEDBACK = ("feedback=both", "feedback=ef21")


class CodecCompressor(Compressor):
    """Any of Hocket's codecs (docs/codecs.md), float tensors only. The state of its error feedback goes through
    checkpoints, each rank's own."""

    _alive = weakref.WeakSet()

    def __init__(self, specification, feedback=False):
        self.codec = hocket.Codec(specification)
        self.feedback = feedback
        self._alive.add(self)

    @classmethod
    def ranks_have_changed(cls):
        """Errors of this rank alone are still to be made good. What was kept together with ranks that are no longer the same
        begins anew, everywhere."""
        for each in cls._alive:
            if each.codec.handle and any(option in each.codec.specification for option in _SHARED_FEEDBACK):
                each.codec.reset_state()

    def state_dict(self):
        """What load_state_dict() needs to go on with the same bits on this rank."""
        return {"codec": self.codec.specification, "state": self.codec.save_state()}

    def load_state_dict(self, state):
        """What state_dict() returned."""
        if state["codec"] != self.codec.specification:
            raise hocket.InvalidArgument(f"the state is of codec '{state['codec']}', not '{self.codec.specification}'")
        self.codec.load_state(state["state"])


class Compression:
    """What `compression` arguments take."""
    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor

    @staticmethod
    def codec(specification, feedback=False):
        """Compression.codec("topk:ratio=0.01", feedback=True), ..."""
        return CodecCompressor(specification, feedback)
