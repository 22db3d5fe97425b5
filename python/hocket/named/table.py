# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""The response cache: which names all ranks know, and by which bit a rank says that it is ready for one.

Every rank holds the same table, for it changes only by what all ranks hear in the same order. A request is announced once;
afterwards one bit says "again the same".
"""


class Entry:
    """One name. `requests`: what each rank announced last."""

    def __init__(self, bit, key):
        self.bit = bit
        self.key = key
        self.requests = {}
        self.sequence = 0  # of its newest announcement or use
        self.fresh = True  # announced, and not carried out since: may not be forgotten

    @property
    def request(self):
        """That of the lowest rank."""
        return self.requests[min(self.requests)]


class Table:
    """`capacity`: how many names are remembered between calls."""

    def __init__(self, capacity):
        self._capacity = capacity
        self._entries = {}
        self._by_bit = {}
        self._free = []
        self._sequence = 0

    @property
    def bits(self):
        """All bits in use are below this."""
        return len(self._by_bit) + len(self._free)

    def entry(self, key):
        """None for a name that is not, or no longer, known."""
        return self._entries.get(key)

    def at(self, bit):
        """The entry of a bit; None if nobody has it."""
        return self._by_bit.get(bit)

    def entries(self):
        """Those that somebody announced."""
        return [entry for entry in self._entries.values() if entry.requests]

    def announce(self, rank, request):
        """A rank made a request that is new or differs from its last of this name."""
        entry = self._entries.get(request.key)
        if entry is None:
            entry = Entry(self._free.pop() if self._free else self.bits, request.key)
            self._entries[request.key] = self._by_bit[entry.bit] = entry
        entry.requests[rank] = request
        entry.fresh = True
        self._touch(entry)

    def drop(self, rank):
        """A rank has joined: what it announced counts no more."""
        for entry in self._entries.values():
            entry.requests.pop(rank, None)

    def used(self, entry):
        """Carried out on all ranks."""
        entry.fresh = False
        self._touch(entry)

    def forget(self, entry):
        """It has to be announced again."""
        if self._entries.pop(entry.key, None) is entry:
            del self._by_bit[entry.bit]
            self._free.append(entry.bit)

    def trim(self):
        """Forgets those that were not used for longest, down to the capacity."""
        excess = len(self._entries) - self._capacity
        if excess <= 0:
            return
        old = sorted((each for each in self._entries.values() if not each.fresh), key=lambda each: each.sequence)
        for entry in old[:excess]:
            self.forget(entry)

    def _touch(self, entry):
        self._sequence += 1
        entry.sequence = self._sequence
