# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""What one rank tells the others of a call: everything that must fit together, and nothing of its data."""
import dataclasses
import json
import math

from hocket._errors import InternalError

KINDS = ("allreduce", "allgather", "broadcast", "alltoall", "reducescatter", "barrier", "join", "add_process_set",
         "remove_process_set")
# No announcement of a rank may be longer; some hundred thousand names.
MOST_BYTES = 64 << 20


@dataclasses.dataclass(frozen=True)
class Request:
    """`feedback`: 1 if the codec keeps errors under the name. `group`: calls that are carried out together. `numbers`:
    alltoall's splits, or the ranks of a process set."""
    kind: str
    name: str
    datatype: str = ""
    shape: tuple = ()
    op: str = ""
    root: int = -1
    prescale: float = 1.0
    postscale: float = 1.0
    codec: str = ""
    feedback: int = 0
    group: str = ""
    group_size: int = 0
    numbers: tuple = ()

    @property
    def key(self):
        """Calls of equal key on all ranks belong together."""
        return f"{self.kind}.{self.name}"

    @property
    def count(self):
        """Elements."""
        count = 1
        for length in self.shape:
            count *= length
        return count

    def __str__(self):
        return f"{self.kind} of '{self.name}'"


_FIELDS = tuple((field.name, field.type) for field in dataclasses.fields(Request))


def encode(requests):
    """Bytes for decode() on the other ranks."""
    return json.dumps([list(dataclasses.astuple(each)) for each in requests], separators=(",", ":")).encode()


def _fits(value, kind):
    if kind is tuple:
        return isinstance(value, list) and all(_is_whole(each) for each in value)
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)
    return _is_whole(value) if kind is int else isinstance(value, str)


def _is_whole(value):
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << 62) < value < 1 << 62


def _request(values):
    if not isinstance(values, list) or len(values) != len(_FIELDS):
        raise InternalError(f"an announcement with {values!r:.80}, not {len(_FIELDS)} values")
    for (name, kind), value in zip(_FIELDS, values):
        if not _fits(value, kind):
            raise InternalError(f"an announcement whose {name} is {value!r:.80}")
    if values[0] not in KINDS:
        raise InternalError(f"an announcement of the unknown kind {values[0]!r:.80}")
    return Request(*(tuple(value) if isinstance(value, list) else value for value in values))


def decode(text):
    """The requests that encode() was given. Never trusts its input: InternalError says what is wrong."""
    if len(text) > MOST_BYTES:
        raise InternalError(f"an announcement of {len(text)} bytes; the limit is {MOST_BYTES}")
    try:
        values = json.loads(bytes(text))
    except (ValueError, RecursionError) as error:
        raise InternalError(f"an announcement that is no JSON: {error}") from None
    if not isinstance(values, list):
        raise InternalError(f"an announcement that is {values!r:.80}, no list")
    return [_request(each) for each in values]
