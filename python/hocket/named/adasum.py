# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Adasum over a power of two of ranks: in round d every rank exchanges its whole vector with that at distance 2^d, and
both combine them, each tensor by itself, in the order of the ranks, so that all end with the same bits."""
import hocket
from hocket._errors import InvalidUsage


def check_ranks(size, request):
    """InvalidUsage for a number of ranks that it cannot be made over."""
    if size & (size - 1):
        raise InvalidUsage(f"{request}: Adasum needs a power of two of ranks, not {size}")


def adasum(communicator, arrays, whole, counts):
    """In place. `counts`: how many elements of the flat array belong to each tensor."""
    rank, size = communicator.rank, communicator.size
    theirs = arrays.empty(arrays.shape(whole), arrays.datatype(whole))
    distance = 1
    while distance < size:
        peer = rank ^ distance
        with hocket.group():
            communicator.send(whole, peer)
            communicator.recv(theirs, peer)
        first = 0
        for count in counts:
            mine, other = arrays.part(whole, first, count), arrays.part(theirs, first, count)
            arrays.adasum(*((mine, other) if rank < peer else (other, mine)), mine)
            first += count
        distance *= 2
