# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Codecs: short messages for compressed collectives, and what error feedback keeps between calls."""
from __future__ import annotations

import ctypes
from typing import Any, NamedTuple, Optional

from hocket import _library
from hocket._buffers import TYPES
from hocket._library import bytes_of, call, choice_of, int_of, text_of


class CodecDescription(NamedTuple):
    """What a codec promises for one datatype; docs/codecs.md says what the numbers mean."""
    ratio: float
    relative_error: float
    absolute_error: float
    range: float
    lossless: bool
    unbiased: bool
    specification: str
    value_bytes: int
    message_bytes: int


class Codec:
    """Made from a specification such as "fp16", "int8:block=128" or "topk:ratio=0.01" (docs/codecs.md)."""

    def __init__(self, specification: str) -> None:
        self.specification = specification
        self.handle: Any = None
        handle = _library.Handle()
        call("CodecCreate", ctypes.byref(handle), text_of("specification", specification))
        self.handle = handle

    def describe(self, datatype: str = "float32") -> CodecDescription:
        """A CodecDescription."""
        raw = _library.CodecDescription(size=ctypes.sizeof(_library.CodecDescription))
        call("CodecDescribe", self.handle, choice_of("datatype", datatype, TYPES), ctypes.byref(raw))
        return CodecDescription(raw.ratio, raw.relative_error, raw.absolute_error, raw.range, bool(raw.lossless),
                                bool(raw.unbiased), raw.specification.decode(), raw.value_bytes, raw.message_bytes)

    def error_bound(self, ranks: int, datatype: str = "float32", collective: str = "all_reduce") -> tuple[float, float]:
        """(relative, absolute): the most that an element of such a collective with this codec, and without a key, is off."""
        relative, absolute = ctypes.c_double(), ctypes.c_double()
        call("CodecErrorBound", self.handle, choice_of("collective with a codec", collective, _library.COMPRESSED),
             choice_of("datatype", datatype, TYPES), int_of("ranks", ranks), ctypes.byref(relative), ctypes.byref(absolute))
        return relative.value, absolute.value

    def save_state(self) -> bytes:
        """What is kept under keys, as bytes; load_state() goes on with the same bits."""
        count = ctypes.c_size_t()
        call("CodecSaveState", self.handle, None, ctypes.byref(count))
        buffer = ctypes.create_string_buffer(max(1, count.value))
        call("CodecSaveState", self.handle, buffer, ctypes.byref(count))
        return buffer.raw[:count.value]

    def load_state(self, state: bytes) -> None:
        """What save_state() returned, maybe in another process."""
        state = bytes_of("state", state)
        call("CodecLoadState", self.handle, state, len(state))

    def reset_state(self, key: Optional[str] = None) -> None:
        """Forgets what is kept under the key, or under all."""
        call("CodecResetState", self.handle, text_of("key", key))

    def close(self) -> None:
        """Frees it. Operations under way keep what they need."""
        if self.handle:
            handle, self.handle = self.handle, None
            call("CodecDestroy", handle)

    def __enter__(self) -> Codec:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self):
        if getattr(self, "handle", None):
            _library.LIBRARY.hocketCodecDestroy(self.handle)

    def __repr__(self) -> str:
        return f"<hocket.Codec {self.specification}{'' if self.handle else ', closed'}>"
