# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Ranks as processes that are forked from the test, which has imported torch already."""
import itertools
import os
import pickle
import sys
import traceback

_PORTS = itertools.count(21000 + os.getpid() % 9000)


def on_ranks(body, ranks=2, **environment):
    """Runs body() on each rank; its results, in the order of ranks. AssertionError with the traceback of a rank that
    raised; a rank that ends otherwise has the result None."""
    address = f"127.0.0.1:{next(_PORTS)}"
    children = [_start(body, {"HOCKET_RANK": str(rank), "HOCKET_SIZE": str(ranks), "HOCKET_ADDRESS": address,
                              **environment}) for rank in range(ranks)]
    results, failures = [], []
    for rank, (process, pipe) in enumerate(children):
        with os.fdopen(pipe, "rb") as file:
            content = file.read()
        os.waitpid(process, 0)
        good, value = pickle.loads(content) if content else (True, None)
        results.append(value)
        if not good:
            failures.append(f"rank {rank}: {value}")
    if failures:
        raise AssertionError("\n".join(failures))
    return results


def _start(body, environment):
    reading, writing = os.pipe()
    sys.stdout.flush()
    process = os.fork()
    if process > 0:
        os.close(writing)
        return process, reading
    os.close(reading)
    os.environ.update(environment)
    try:
        result = True, body()
    except BaseException:  # pylint: disable=broad-except
        result = False, traceback.format_exc()
    with os.fdopen(writing, "wb") as file:
        pickle.dump(result, file)
    sys.stdout.flush()
    os._exit(0)
