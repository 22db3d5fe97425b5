# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Ranks as threads of the test."""
import threading

import hocket


def on_threads(body, ranks):
    """Runs body(communicator) on a thread per rank; an exception of any is raised here."""
    failures = []

    def run(communicator):
        try:
            body(communicator)
        except BaseException as failure:  # pylint: disable=broad-except
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(each,)) for each in hocket.Communicator.all(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
