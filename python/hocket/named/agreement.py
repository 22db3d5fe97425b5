# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Do the requests that ranks made under one name fit together? Pure; every rank comes to the same answer."""

# What must be equal on all ranks, by kind; "rest": the shape but for its first length.
_EQUAL = {
    "allreduce": ("datatype", "shape", "op", "prescale", "postscale", "codec", "feedback", "group", "group_size"),
    "allgather": ("datatype", "rest", "group", "group_size"),
    "broadcast": ("datatype", "shape", "root"),
    "alltoall": ("datatype", "rest"),
    "reducescatter": ("datatype", "shape", "op", "prescale", "postscale", "group", "group_size"),
    "barrier": (),
    "add_process_set": ("numbers",),
    "remove_process_set": ("root",),
}
_WORDS = {"rest": "shape", "numbers": "ranks"}
_SUMS = ("sum", "avg")


def _value(request, name):
    return (len(request.shape), request.shape[1:]) if name == "rest" else getattr(request, name)


def _shown(request, name):
    name = _WORDS.get(name, name)
    return f"{name} {request.numbers if name == 'ranks' else getattr(request, name)}"


def disagreement(requests, joined):
    """None, or a sentence on the first difference. requests: by rank, of one key; joined: ranks without data."""
    (first_rank, first), *others = sorted(requests.items())
    for rank, request in others:
        for name in _EQUAL[first.kind]:
            if _value(request, name) != _value(first, name):
                return (f"{first}: rank {first_rank} has {_shown(first, name)}, rank {rank} has "
                        f"{_shown(request, name)}")
    return _joined_disagreement(first, joined) if joined else None


def _joined_disagreement(request, joined):
    ranks = ", ".join(map(str, sorted(joined)))
    if request.kind == "allreduce" and request.op not in _SUMS:
        return f"{request}: op {request.op} has no neutral element for the joined ranks {ranks}; only sum and average have"
    if request.kind not in ("allreduce", "allgather", "barrier"):
        return f"{request}: joined ranks ({ranks}) take part in allreduce, allgather and barrier only"
    return None
