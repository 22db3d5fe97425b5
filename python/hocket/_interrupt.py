# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Ctrl-C while the main thread is inside a call: Python's own handler runs only when the call has returned, so a thread
listens for the signal and ends what the main thread waits on. Costs a call two assignments."""
import signal
import socket
import threading

from hocket._library import LIBRARY

_waits_on = None  # the handle of the communicator that the main thread is inside
_listening = None
_also: list = []  # what else ends calls of the main thread


def _listen(ours):
    while True:
        numbers = ours.recv(64)
        if not numbers:
            return
        handle = _waits_on
        if signal.SIGINT not in numbers:
            continue
        if handle is not None:
            LIBRARY.hocketCommAbort(handle)
        for end in _also:
            end()


def _start():
    """Unless somebody else listens for signals already (asyncio), or the program handles Ctrl-C itself."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return False
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    if before != -1:
        signal.set_wakeup_fd(before)
        return False
    threading.Thread(target=_listen, args=(ours,), name="hocket-ctrl-c", daemon=True).start()
    return theirs  # keeps the socket open


def listen(also=None):
    """From now on Ctrl-C ends calls of the main thread; `also` is called then, on another thread."""
    global _listening  # pylint: disable=global-statement
    if also is not None and also not in _also:
        _also.append(also)
    if _listening is None and threading.current_thread() is threading.main_thread():
        _listening = _start()


class Interruptible:
    """`with Interruptible(handle): ...` around calls that may wait."""

    def __init__(self, handle):
        self.handle = handle
        self.is_main = threading.current_thread() is threading.main_thread()

    def __enter__(self):
        global _waits_on  # pylint: disable=global-statement
        if self.is_main:
            listen()
            _waits_on = self.handle

    def __exit__(self, *_):
        global _waits_on  # pylint: disable=global-statement
        if self.is_main:
            _waits_on = None
