# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Matches the calls of all ranks of a communicator by name, on a thread of its own.

The thread negotiates in rounds; each is one small all-reduce: a bit for every known name that this rank is ready for. What
all ranks are ready for is carried out, in the same order everywhere. A name that is new is announced in between. A rank
with nothing to say begins a round once a second, so that the others learn what it is not ready for.
"""
import array
import contextlib
import threading
import time

import hocket
from hocket.named import agreement, fusion, request as request_
from hocket.named.autotune import Tuner
from hocket.named.errors import HorovodInternalError, Mismatch
from hocket.named.perform import Performer, substitute
from hocket.named.stall import LOG, StallWatch
from hocket.named.table import Table

_NEWS, _END, _REPORT = 1, 2, 4  # flags
_FLAGS, _THRESHOLD, _CYCLE, _BITS = range(4)  # words of a round's message; the bits begin at the last
_ALL_ONES = (1 << 64) - 1
_IDLE_ROUND_S = 1.0
_SHUT_DOWN = ("Horovod has been shut down: this rank or another called shutdown() or ended, maybe because of an exception "
              "that is in its log")


class Engine:
    """`ranks`: the numbers in the world of the communicator's ranks. The engine uses the communicator alone until it has
    ended, and leaves it open."""

    def __init__(self, communicator, settings, timeline, ranks=None):
        self.communicator = communicator
        self.ranks = list(range(communicator.size)) if ranks is None else list(ranks)
        self._timeline = timeline
        self._disable_group_fusion = settings.disable_group_fusion
        self._threshold, self._cycle_time = settings.fusion_threshold, settings.cycle_time
        self._tuner = Tuner(settings) if settings.autotune and communicator.rank == 0 else None
        self._table = Table(settings.cache_capacity)
        self._performer = Performer(communicator, self.ranks, timeline)
        self._stall = StallWatch(settings.stall_check_time, settings.stall_shutdown_time)
        self._actions = {}
        self._changed = threading.Condition()
        self._pending = {}  # key -> Call
        self._joined = []  # ranks, in the order in which they joined
        self._join_call = None
        self._awaited = False
        self._ending = False
        self._failure = None  # (exception, message), once no call can be made any more
        self._round_ended = 0.0
        self._thread = threading.Thread(target=self._run, name="hocket-named", daemon=True)
        self._thread.start()

    # ---- For callers, on any thread

    def submit(self, call):
        """Takes a call. Mismatch when one of the same name is under way."""
        self.submit_all([call])
        return call

    def submit_all(self, calls):
        """Takes all of them, or none."""
        with self._changed:
            self._check_alive()
            for call in calls:
                self._check_name(call.request)
            for call in calls:
                if call.request.kind == "join":
                    self._join_call = call
                self._pending[call.request.key] = call
                call.on_wait = self._hurry
                self._timeline.begin(call.request.key, f"NEGOTIATE_{call.request.kind.upper()}")
            self._changed.notify()

    def _check_name(self, request):
        if request.kind == "join":
            if self._join_call is not None:
                raise Mismatch("join: this rank has joined already")
        elif request.key in self._pending:
            raise Mismatch(f"{request}: rank {self.ranks[self.communicator.rank]} has a call of this name under way; give each "
                           "tensor its own name")

    def _hurry(self):
        """Who waits for a call makes no more of them: nothing is won by waiting for more to fuse."""
        with self._changed:
            self._awaited = True
            self._changed.notify()

    def on(self, kind, action):
        """Calls of that kind are carried out by action(request) on every rank, on the engine's thread."""
        self._actions[kind] = action

    def close(self):
        """Ends the engines of all ranks; calls that are not ready fail there and here. Waits for this one."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    @property
    def failed(self):
        """Whether no more calls can be made."""
        return self._failure is not None

    def _check_alive(self):
        if self._failure is not None:
            kind, message = self._failure
            raise kind(message)

    # ---- The engine's thread

    def _run(self):
        failure = HorovodInternalError, _SHUT_DOWN
        try:
            while self._round():
                self._await_next_round()
        except HorovodInternalError as error:  # what all ranks know
            failure = HorovodInternalError, str(error)
        except BaseException as error:  # pylint: disable=broad-except
            with contextlib.suppress(hocket.Error):  # the others may wait for what this rank can no longer carry out
                self.communicator.revoke()
            failure = HorovodInternalError, _told(error, self.communicator.rank)
        if self._tuner is not None:
            self._tuner.close()
        with self._changed:
            self._failure = failure
            calls = list(self._pending.values())
            self._pending.clear()
        for call in calls:
            call.fail(*failure)

    def _await_next_round(self):
        with self._changed:
            if not self._pending and not self._ending:
                self._changed.wait(_IDLE_ROUND_S)
            pause = self._round_ended + self._cycle_time - time.monotonic()
            self._changed.wait_for(lambda: self._awaited or self._ending, max(0.0, pause))
            self._awaited = False

    def _round(self):
        self._timeline.cycle()
        with self._changed:
            pending = dict(self._pending)
            ending = self._ending
        ready, flags = self._negotiate(pending, ending)
        moved = self._carry_out(ready, pending)
        if flags & _REPORT:
            self._report_stall(pending)
        if self._tuner is not None and moved > 0:
            self._tuner.add(moved)
            self._threshold, self._cycle_time = self._tuner.values
        self._round_ended = time.monotonic()
        return not flags & _END

    def _negotiate(self, pending, ending):
        while True:
            news = self._news(pending)
            flags = ((_NEWS if news else 0) | (_END if ending else 0)
                     | (_REPORT if self._stall.due(pending.values()) else 0))
            flags, bits = self._exchange_head(flags, pending)
            if not flags & _NEWS:
                break
            self._exchange_news(news)
        ready = [entry for bit in _set_bits(bits) if (entry := self._table.at(bit)) is not None]
        return ready, flags

    def _news(self, pending):
        return [call.request for key, call in pending.items() if not self._known(key, call.request, len(pending))]

    def _known(self, key, request, pending_count=0):
        if request.kind == "join":  # once all else of this rank is done
            return pending_count > 1 or self.communicator.rank in self._joined
        entry = self._table.entry(key)
        return entry is not None and entry.requests.get(self.communicator.rank) == request

    def _exchange_head(self, flags, pending):
        words = (self._table.bits + 63) // 64
        head = array.array("Q", [_ALL_ONES] * (_BITS + words))
        head[_FLAGS] = _ALL_ONES ^ flags  # the "and" of complements: a flag of any rank is a flag of all
        if self.communicator.rank == 0:
            head[_THRESHOLD], head[_CYCLE] = self._threshold, round(1e6 * self._cycle_time)
        if self.communicator.rank not in self._joined:  # who has joined is ready for everything
            head[_BITS:] = array.array("Q", self._ready_bits(pending).to_bytes(8 * words, "little"))
        self.communicator.all_reduce(head, op="bit_and")
        self._threshold, self._cycle_time = head[_THRESHOLD], 1e-6 * head[_CYCLE]
        return _ALL_ONES ^ head[_FLAGS], int.from_bytes(head[_BITS:].tobytes(), "little")

    def _ready_bits(self, pending):
        bits = 0
        for key, call in pending.items():
            if call.request.kind != "join" and self._known(key, call.request):
                bits |= 1 << self._table.entry(key).bit
        return bits

    def _exchange_news(self, news):
        for rank, text in enumerate(self._all_gather(request_.encode(news))):
            for request in request_.decode(text):
                if request.kind == "join":
                    self._joined.append(rank)
                    self._table.drop(rank)
                else:
                    self._table.announce(rank, request)

    def _all_gather(self, text):
        lengths = array.array("q", [0] * self.communicator.size)
        self.communicator.all_gather(array.array("q", [len(text)]), lengths)
        whole = bytearray(sum(lengths))
        self.communicator.all_gather_v(text, whole, list(lengths))
        parts = []
        for length in lengths:
            parts.append(whole[:length])
            del whole[:length]
        return parts

    # ---- What is ready

    def _carry_out(self, ready, pending):
        if len(self._joined) == self.communicator.size:
            last, self._joined, self._join_call = self._joined[-1], [], None
            self._take("join.").complete(self.ranks[last])
            return 0
        ready = self._without_disagreements(ready, pending)
        moved = 0
        for batch in fusion.batches(fusion.complete_groups(ready), self._threshold, self._disable_group_fusion):
            self._carry_out_batch(batch, pending)
            moved += sum(fusion.size_bytes(entry.request) for entry in batch)
        self._table.trim()
        return moved

    def _without_disagreements(self, ready, pending):
        joined = [self.ranks[rank] for rank in self._joined]
        faults = {entry.key: fault for entry in ready if (fault := agreement.disagreement(
            {self.ranks[rank]: request for rank, request in entry.requests.items()}, joined))}
        if not faults:
            return ready
        # Of a group of any rank also what other ranks do not have in theirs.
        groups = {request.group: faults[entry.key] for entry in ready if entry.key in faults
                  for request in entry.requests.values() if request.group}
        for entry in self._table.entries():
            fault = next((groups[request.group] for request in entry.requests.values() if request.group in groups), None)
            if fault:
                faults.setdefault(entry.key, fault)
            if entry.key in faults:
                self._table.forget(entry)
        for key, call in pending.items():
            if fault := faults.get(key) or groups.get(call.request.group):
                self._take(key).fail(Mismatch, fault)
        return [entry for entry in ready if entry.key not in faults]

    def _carry_out_batch(self, batch, pending):
        for entry in batch:
            self._table.used(entry)
        request = batch[0].request
        if request.kind in self._actions:
            self._act(request)
            return
        calls = [self._take(entry.key) if entry.key in pending else substitute(entry.request, self._join_call.arrays)
                 for entry in batch]
        keys = [entry.key for entry in batch]
        try:
            with self._timeline.phase(keys, request.kind.upper()):
                self._performer.perform(batch, calls)
        except BaseException as error:
            for call in calls:
                call.fail(HorovodInternalError, f"{call.request}: {error}")
            raise

    def _act(self, request):
        result = self._actions[request.kind](request)
        self._take(request.key).complete(result)

    def _take(self, key):
        with self._changed:
            call = self._pending.pop(key)
        self._timeline.end(key)
        return call

    def _report_stall(self, pending):
        told = self._all_gather(self._stall.encode(pending.values()))
        waiting = {self.ranks[rank]: self._stall.decode(text) for rank, text in enumerate(told)}
        lines, gives_up = self._stall.judge(waiting, [self.ranks[rank] for rank in self._joined])
        if self.communicator.rank == 0:
            for line in lines:
                LOG.warning("%s", line)
        if gives_up:
            raise HorovodInternalError(gives_up)


def _told(error, rank):
    """The library's sentences name the rank themselves."""
    return str(error) if isinstance(error, hocket.Error) else f"rank {rank}: {type(error).__name__}: {error}"


def _set_bits(bits):
    bit = 0
    while bits:
        zeros = (bits & -bits).bit_length() - 1
        bits >>= zeros + 1
        bit += zeros
        yield bit
        bit += 1
