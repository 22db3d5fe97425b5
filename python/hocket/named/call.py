# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""One call of this rank on its way: what it asks for, where its data is, and how it ended."""
import threading
import time


class Call:
    """`send` is read, and `recv` written, on the engine's thread until the call is done. `recv` may be `send`, or None:
    then it is made when its shape is known. `finish(result)` turns what was received into what result() returns."""

    def __init__(self, request, arrays=None, send=None, recv=None, codec=None, finish=None):
        self.request = request
        self.arrays = arrays
        self.send = send
        self.recv = recv
        self.codec = codec
        self.begun = time.monotonic()
        self.on_wait = None  # called when somebody begins to wait
        self._finish = finish
        self._done = threading.Event()
        self._result = None
        self._error = None

    def complete(self, result):
        """Ends it well."""
        self._result = result
        self._done.set()

    def fail(self, kind, message):
        """Ends it with an exception for whoever waits."""
        self._error = kind, message
        self._done.set()

    def poll(self):
        """Whether result() would return or raise at once."""
        return self._done.is_set()

    def result(self):
        """Waits. The exception names the call and the ranks; a new one each time, for it keeps a traceback."""
        if self.on_wait is not None and not self._done.is_set():
            self.on_wait()
        # Without a limit the wait would not see Ctrl-C.
        while not self._done.wait(60):
            pass
        if self._error is not None:
            kind, message = self._error
            raise kind(message)
        if self._finish is not None:
            finish, self._finish = self._finish, None
            self._result = finish(self._result)
        return self._result
