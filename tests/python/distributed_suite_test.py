#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""PyTorch's own suite of its distributed package, which the wheel of torch brings, driven on Hocket: all that passes on
gloo passes on Hocket, but for what torch grants to the name gloo only."""
import os
import subprocess
import sys
import tempfile
import unittest

# torch refuses dist.monitored_barrier to every backend that is not called gloo (the calls of ProcessGroup itself, which
# other backends get, are in backend_test.py); the last two compare the name with gloo.
ONLY_FOR_THE_NAME = {"test_monitored_barrier_gloo", "test_monitored_barrier_gloo_rank_0_timeout",
                     "test_monitored_barrier_gloo_subgroup", "test_get_backend", "test_ddp_logging_data_cpu"}


def drive(backend, size):
    """In a process of its own: the suite decides by environment variables, and by its idea of the backend's name, which
    tests there are; so it is told gloo, and where a group is made, the other name is put in its place."""
    os.environ.update(BACKEND="gloo", WORLD_SIZE=str(size), TEMP_DIR=os.environ["SUITE_FOLDER"])
    import torch.distributed as dist
    from torch.testing._internal import common_distributed
    from torch.testing._internal.distributed import distributed_test
    if backend != "gloo":
        import hocket.distributed
        for name in ("init_process_group", "new_group", "new_subgroups", "new_subgroups_by_enumeration"):
            setattr(dist, name, renaming(getattr(dist, name), backend))

    class Suite(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        """The processes are forked: spawned, each would import torch again."""

        def setUp(self):
            super().setUp()
            self._start_processes(common_distributed.torch.multiprocessing.get_context("fork").Process)

    loader = unittest.defaultTestLoader
    tests = loader.loadTestsFromTestCase(Suite)
    result = unittest.TestResult()
    for test in tests:
        before = len(result.failures) + len(result.errors), len(result.skipped)
        test.run(result)
        after = len(result.failures) + len(result.errors), len(result.skipped)
        verdict = "failed" if after[0] > before[0] else "skipped" if after[1] > before[1] else "passed"
        print(f"suite: {test._testMethodName} {verdict}", flush=True)


def renaming(function, backend):
    def renamed(*arguments, **options):
        arguments = [backend if value == "gloo" else value for value in arguments]
        options = {key: backend if value == "gloo" else value for key, value in options.items()}
        return function(*arguments, **options)

    return renamed


def verdicts(backend, size):
    """{test: passed, failed or skipped}; what it said stays in the temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, __file__, "drive", backend, str(size)], check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**os.environ, "SUITE_FOLDER": folder})
    log = os.path.join(tempfile.gettempdir(), f"distributed_suite-{backend}-{size}.log")
    with open(log, "w", encoding="utf-8") as file:
        file.write(done.stdout)
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("suite: ")]
    if not lines:
        raise AssertionError(f"the suite did not run: {done.stdout[-3000:]}")
    return {name: verdict for _, name, verdict in lines}


class Suite(unittest.TestCase):
    def as_far_as_gloo(self, size):
        gloo, ours = verdicts("gloo", size), verdicts("hocket", size)
        passed = {name for name, verdict in gloo.items() if verdict == "passed"}
        missing = sorted(name for name in passed if ours.get(name) != "passed")
        print(f"{size} ranks: of {len(gloo)} tests gloo passes {len(passed)}, Hocket "
              f"{sum(verdict == 'passed' for verdict in ours.values())}; not: {missing}", flush=True)
        self.assertGreater(len(passed), 60)
        self.assertEqual([name for name in missing if name not in ONLY_FOR_THE_NAME], [])

    def test_2_ranks(self):
        self.as_far_as_gloo(2)

    def test_4_ranks(self):
        self.as_far_as_gloo(4)


if __name__ == "__main__":
    if sys.argv[1:2] == ["drive"]:
        drive(sys.argv[2], int(sys.argv[3]))
    else:
        unittest.main(verbosity=2)
