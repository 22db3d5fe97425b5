# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Who waits for whom: when a call has waited long, the ranks tell each other what each waits for."""
import json
import logging
import time

from hocket._errors import InternalError

LOG = logging.getLogger("hocket.horovod")


def _ranks(numbers):
    return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(map(str, sorted(numbers)))}"


def _stalling(calls):
    """Who has joined waits as long as the others have data."""
    return [call for call in calls if call.request.kind != "join"]


class StallWatch:
    """`check`: seconds after which a call is reported, and between reports; 0: never. `shutdown`: after which waiting
    ends with an error; 0: never."""

    def __init__(self, check, shutdown):
        self._shutdown = shutdown
        self._check = min(each for each in (check, shutdown) if each > 0) if check > 0 or shutdown > 0 else 0
        self._reported = 0.0

    def due(self, calls):
        """Whether this rank wants a report."""
        now = time.monotonic()
        return (self._check > 0 and now - self._reported > self._check
                and any(now - call.begun > self._check for call in _stalling(calls)))

    @staticmethod
    def encode(calls):
        """What this rank waits for."""
        now = time.monotonic()
        return json.dumps({call.request.key: now - call.begun for call in _stalling(calls)}).encode()

    @staticmethod
    def decode(text):
        """Seconds by key. InternalError for what encode() has not made."""
        try:
            waiting = json.loads(bytes(text))
        except (ValueError, RecursionError) as error:
            raise InternalError(f"a rank tells what it waits for, but not as JSON: {error}") from None
        if not isinstance(waiting, dict) or not all(isinstance(each, (int, float)) for each in waiting.values()):
            raise InternalError(f"a rank tells what it waits for as {waiting!r:.80}")
        return waiting

    def judge(self, waiting, joined):
        """waiting: by rank, what decode() gave. Returns (what to warn of, why to give up or None)."""
        self._reported = time.monotonic()
        lines = []
        longest = 0.0
        for key in sorted(set().union(*waiting.values())):
            have = [rank for rank, calls in waiting.items() if key in calls]
            seconds = max(waiting[rank][key] for rank in have)
            missing = [rank for rank in waiting if rank not in have and rank not in joined]
            if seconds > self._check and missing:
                kind, _, name = key.partition(".")
                lines.append(f"{kind} of '{name}' waits since {seconds:.0f} s: {_ranks(have)} called it, "
                             f"{_ranks(missing)} not")
                longest = max(longest, seconds)
        gives_up = self._shutdown > 0 and longest > self._shutdown
        return lines, "; ".join(lines) if gives_up else None
