# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Which calls are carried out as one. Pure: all ranks come to the same batches from the same entries."""
import collections

_BITS = {"float64": 64, "int64": 64, "uint64": 64, "float32": 32, "int32": 32, "uint32": 32, "float16": 16,
         "bfloat16": 16}


def size_bytes(request):
    """Of one rank's data."""
    return request.count * _BITS.get(request.datatype, 8) // 8


def _fusable(request):
    """Calls of equal value here may share one collective; None stands alone. Codecs keep errors by name."""
    if request.kind != "allreduce" or request.codec:
        return None
    return request.datatype, request.op, request.prescale, request.postscale


def complete_groups(entries):
    """Without those whose group is not all here."""
    present = collections.Counter(entry.request.group for entry in entries)
    return [entry for entry in entries if present[entry.request.group] >= entry.request.group_size]


def _units(entries):
    """Entries that may not be parted: groups, and single ones."""
    groups = {}
    units = []
    for entry in entries:
        group = entry.request.group
        if not group:
            units.append([entry])
        elif (group, _fusable(entry.request)) in groups:
            groups[group, _fusable(entry.request)].append(entry)
        else:
            units.append(groups.setdefault((group, _fusable(entry.request)), [entry]))
    return units


def batches(entries, threshold, keep_groups_apart=False):
    """Lists of entries, each to be carried out as one, in the order of their announcement. Together the small ones are at
    most `threshold` bytes; groups may be more."""
    result = []
    open_batches = {}  # what it fuses -> [batch, bytes]
    for unit in _units(sorted(entries, key=lambda entry: entry.sequence)):
        kind = _fusable(unit[0].request)
        if kind is None:
            result.extend([entry] for entry in unit)
            continue
        size = sum(size_bytes(entry.request) for entry in unit)
        current = open_batches.get(kind)
        apart = keep_groups_apart and unit[0].request.group
        if current is None or apart or current[1] + size > threshold:
            result.append(list(unit))
            if not apart:
                open_batches[kind] = [result[-1], size]
        else:
            current[0].extend(unit)
            current[1] += size
    return result
