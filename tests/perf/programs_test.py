#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""The perf programs as scripts meet them: the table, JSON, CSV, exit statuses, and real processes that die.

programs_test.py FOLDER_OF_PROGRAMS FAULTY_PERF
"""
import csv
import json
import os
import pathlib
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path("build/perf")
FAULTY = pathlib.Path("build/tests/perf/faulty_perf")
NAMES = ["all_reduce", "all_gather", "broadcast", "reduce", "reduce_scatter", "alltoall", "alltoallv", "gather",
         "scatter", "sendrecv", "barrier"]

# What scripts around nccl-tests look for.
NUMBER = r"\d+(?:\.\d+)?(?:e[+-]\d+)?"
HALF = rf"\s+({NUMBER})\s+({NUMBER})\s+({NUMBER})\s+({NUMBER}|N/A)"
ROW = re.compile(rf"^\s+(\d+)\s+(\d+)\s+(\w+)\s+(\w+)\s+(-?\d+){HALF}{HALF}$")
FACTORS = {"all_reduce": 1.0, "all_gather": 0.5, "reduce_scatter": 0.5, "alltoall": 0.5, "alltoallv": 0.5,
           "gather": 0.5, "scatter": 0.5, "broadcast": 1.0, "reduce": 1.0, "sendrecv": 1.0}  # for two ranks


def run(program, *arguments, environment=None, limit_s=60):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HOCKET_", "NCCL_TESTS_"))}
    return subprocess.run([str(program), *map(str, arguments)], capture_output=True, text=True, timeout=limit_s,
                          env={**clean, **(environment or {})}, check=False)


def perf(name, *arguments, **more):
    return run(PROGRAMS / f"{name}_perf", *arguments, **more)


def rows_of(text):
    return [match.groups() for match in map(ROW.match, text.splitlines()) if match]


class Codec(unittest.TestCase):
    def rows(self, compression, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            table = pathlib.Path(folder) / "x.csv"
            done = perf("all_reduce", "--ranks", 2, "-b", "64K", "-e", "64K", "-n", 3, "--csv", table, *arguments,
                        environment={"HOCKET_COMPRESSION": compression})
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(table, encoding="utf-8") as file:
                return list(csv.DictReader(file)), done.stdout

    def test_columns_tell_what_was_sent_and_how_far_off_it_is(self):
        rows, text = self.rows("always", "--codec", "int8")
        self.assertRegex(text, r"#wrong +sent +ratio +error +bound")
        for row in rows:
            # Half of the elements scattered, half gathered: a byte each, and a scale of two for each 32.
            self.assertEqual(int(row["sent_bytes"]), 16384 * 34 // 32)
            self.assertAlmostEqual(float(row["ratio"]), 34 / 128, 5)
            self.assertEqual(int(row["wrong"]), 0)
            self.assertGreater(float(row["error"]), 0)
            self.assertLessEqual(float(row["error"]), float(row["bound"]))

    def test_a_codec_that_does_not_pay_changes_nothing(self):
        for row in self.rows("auto", "--codec", "int8")[0]:
            self.assertEqual((int(row["sent_bytes"]), float(row["ratio"]), float(row["error"])), (0, 1, 0))

    def test_an_unknown_codec_is_named(self):
        done = perf("all_reduce", "--ranks", 2, "--codec", "int9")
        self.assertEqual(done.returncode, 3)
        self.assertIn("there is no codec 'int9'; there are fp16,", done.stderr)


class Table(unittest.TestCase):
    def test_every_program_has_the_same_table(self):
        for name in NAMES:
            with self.subTest(name):
                done = perf(name, "--ranks", 2, "-b", 64, "-e", 4096, "-f", 8, "-n", 3)
                self.assertEqual(done.returncode, 0, done.stderr)
                rows = rows_of(done.stdout)
                self.assertEqual(len(rows), 1 if name == "barrier" else 3, done.stdout)
                self.assertEqual({row[8] for row in rows}, {"0"})
                self.assertIn("# Out of bounds values : 0 OK\n", done.stdout)
                self.assertRegex(done.stdout, r"\n# Avg bus bandwidth    : \S+ \n#\n# Collective test concluded: ")
                self.assertRegex(done.stdout.splitlines()[-1], r"^# Best bus bandwidth: \d+\.\d\d GB/s at ")

    def test_header_is_that_of_nccl_tests(self):
        lines = perf("all_reduce", "--ranks", 2, "-b", 8, "-e", 8, "-n", 2).stdout.splitlines()
        heading = [line for line in lines if line.startswith(("#       size", "#        (B)"))]
        self.assertEqual(heading[0].rstrip(), "#       size         count      type   redop    root     time   algbw"
                         "   busbw  #wrong     time   algbw   busbw  #wrong")
        self.assertEqual(heading[1].rstrip(), "#        (B)    (elements)                               (us)  (GB/s)"
                         "  (GB/s)             (us)  (GB/s)  (GB/s)")
        self.assertIn("# Collective test starting: all_reduce_perf", lines)
        self.assertTrue(any(line.startswith("# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: ") for line in lines))
        rank = re.compile(r"#  Rank +\d+ Group +0 Pid +\d+ on +\S+ device +\d+ \[\S+\] \S")
        ranks = [line for line in lines if rank.match(line)]
        self.assertEqual(len(ranks), 2)
        self.assertTrue(any(line.startswith("# Build: ") for line in lines))
        if len({pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list").read_text(encoding="utf-8")
                for cpu in os.sched_getaffinity(0)}) > 1:
            self.assertTrue(any(re.match(r"# Core latency: cpu \d+ to \d+: \d+ ns", line) for line in lines))

    def test_columns_stand_where_they_stand_in_nccl_tests(self):
        line = next(line for line in perf("all_reduce", "--ranks", 2, "-b", 64, "-e", 64, "-n", 2).stdout.splitlines()
                    if ROW.match(line))
        self.assertRegex(line, r"^ {10}64  {11}16     float     sum      -1(  .{7}  .{6}  .{6}  .{6}){2}$")

    def test_bus_bandwidth_follows_from_the_size_and_the_factor(self):
        for name, factor in FACTORS.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                table = pathlib.Path(folder) / "x.csv"
                perf(name, "--ranks", 2, "-b", "64K", "-e", "64K", "-n", 2, "--csv", table)
                with open(table, newline="", encoding="utf-8") as file:
                    for row in csv.DictReader(file):
                        algorithm = float(row["size_bytes"]) / float(row["time_us"]) / 1e3
                        self.assertAlmostEqual(float(row["algbw_gb_s"]) / algorithm, 1, delta=0.01)
                        self.assertAlmostEqual(float(row["busbw_gb_s"]), algorithm * factor, delta=0.02 * algorithm)

    def test_extra_columns(self):
        done = perf("all_reduce", "--ranks", 2, "-b", 64, "-e", 64, "-n", 5, "-I", 1, "--percentiles")
        row = next(line for line in done.stdout.splitlines() if line.startswith("          64"))
        self.assertEqual(len(row.split()), 5 + 2 * (4 + 4 + 3))
        for name in ("i_min", "i_max", "i_p99", "i_cv%", "p50", "p90", "p99"):
            self.assertEqual(done.stdout.count(f" {name} "), 2, name)

    def test_the_best_bandwidth_is_found_among_extra_columns(self):
        for extra in ((), ("-I", 1), ("-I", 1, "--percentiles")):  # of sizes whose figures are never alike
            with self.subTest(extra), tempfile.TemporaryDirectory() as folder:
                done = perf("all_reduce", "--ranks", 2, "-b", "4K", "-e", "4M", "-f", 1024, "-n", 5, *extra)
                log = pathlib.Path(folder) / "perf-shm-2.log"
                log.write_text(done.stdout, encoding="utf-8")
                found = run("awk", "-f", SOURCE / "perf/best_bandwidth.awk", log).stdout
                best = re.search(r"# Best bus bandwidth: (\S+) GB/s at (\d) MiB", done.stdout)
                self.assertEqual(found, f"Best bus bandwidth: {best[1]} GB/s ({int(best[2]) << 20} bytes, 2 ranks, shm)\n")

    def test_all_types_and_operations(self):
        done = perf("all_reduce", "--ranks", 2, "-b", 64, "-e", 64, "-n", 1, "-o", "all", "-d", "all")
        rows = rows_of(done.stdout)
        self.assertEqual(len(rows), 12 * 6 + 6 * 6, done.stderr)
        self.assertEqual({row[8] for row in rows} | {row[12] for row in rows}, {"0"})

    def test_threads_groups_and_queues(self):
        for shape in (("-t", 3), ("-g", 3), ("-t", 2, "-g", 2), ("-t", 2, "-p", 1), ("--ranks", 2, "--queue"),
                      ("--ranks", 2, "-m", 3), ("--ranks", 2, "-z", 1), ("--ranks", 2, "-z", 3),
                      ("--ranks", 2, "-u", 1), ("--ranks", 2, "--cold")):
            with self.subTest(shape):
                done = perf("all_reduce", *shape, "-b", "1K", "-e", "4K", "-f", 4, "-n", 3)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual([row[8] + row[12] for row in rows_of(done.stdout)], ["00", "00"])

    def test_hosts_are_those_of_the_library(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [str(PROGRAMS / "all_reduce_perf"), "-b", "8", "-e", "8", "-n", "2"]
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HOCKET_")}
        ranks = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={
            **clean, "HOCKET_RANK": str(rank), "HOCKET_SIZE": "2", "HOCKET_ADDRESS": f"127.0.0.1:{port}",
            "HOCKET_HOST_ID": f"h{rank}"}) for rank in range(2)]
        text = [rank.communicate(timeout=60)[0] for rank in ranks][0]
        self.assertIn("# 2 ranks in 2 processes on 2 hosts\n", text)
        self.assertRegex(text, r"#  Rank +1 .* on +\S+/h1 device +0 ")

    def test_a_row_that_takes_long_says_so_on_a_terminal(self):
        ours, theirs = pty.openpty()
        command = [str(PROGRAMS / "all_reduce_perf"), "-t", "2", "-b", "1M", "-e", "1M", "-n", "1000000"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, start_new_session=True) as started:
            os.close(theirs)
            text = ""
            until = time.monotonic() + 30
            while len(re.findall(r"\(\d+ s so far\)", text)) < 2 and time.monotonic() < until:
                if select.select([ours], [], [], 1)[0]:
                    text += os.read(ours, 4096).decode()
            os.killpg(started.pid, signal.SIGKILL)
        os.close(ours)
        self.assertRegex(text, r"all_reduce_perf: measuring 1 MiB of float, sum \(\d+ s so far\)\r\x1b\[Kall_reduce_perf: ")

    def test_memory_and_what_the_pipes_hold_of_their_budget(self):
        for shape, budget in ((("--ranks", 2), "4.00 MB"), (("-t", 3, "-g", 1), "8.00 MB"), (("-g", 3), "8.00 MB")):
            with self.subTest(shape):
                done = perf("all_reduce", *shape, "-b", "1M", "-e", "1M", "-n", 2, "-M", 1)
                self.assertEqual(done.returncode, 0, done.stderr)
                found = re.search(r"\n# Host memory usage    : Initialization \S+ \S+ \| User-Allocated \S+ \S+ \| "
                                  r"Collective \S+ \S+ \| Total  \S+ \S+ \| Pipes (\S+) [KM]B of (\S+ \S+)\n", done.stdout)
                self.assertGreater(float(found[1]), 0)
                self.assertEqual(found[2], budget)
        self.assertNotIn("memory", perf("all_reduce", "--ranks", 2, "-b", 8, "-e", 8, "-n", 2).stdout)

    def test_demanded_bandwidth(self):
        done = perf("all_reduce", "--ranks", 2, "-b", 64, "-e", 64, "-n", 1, environment={"NCCL_TESTS_MIN_BW": "1e6"})
        self.assertEqual(done.returncode, 7)
        self.assertRegex(done.stdout, r"Avg bus bandwidth    : \S+ FAILED")

    def test_algorithms_are_listed(self):
        done = perf("all_reduce", "--list-algorithms")
        self.assertEqual(done.returncode, 0)
        self.assertIn("ring", done.stdout.split())


class ForcedAlgorithms(unittest.TestCase):
    """Only what is measured is forced, not what the ranks say between measurements."""

    def forced(self, algorithm, *arguments):
        return perf("all_reduce", "-b", 64, "-e", 4096, "-f", 8, "-n", 2, *arguments,
                    environment={"HOCKET_ALGORITHM": algorithm})

    def test_one_that_the_other_collectives_cannot_use(self):
        for algorithm, arguments in (("recursive_doubling", ("--ranks", 3)), ("recursive_doubling", ("-t", 3)),
                                     ("window", ("--ranks", 2, "-R", 1)), ("window", ("-g", 3, "-R", 2))):
            with self.subTest(algorithm, arguments=arguments):
                done = self.forced(algorithm, *arguments)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual([row[8] + row[12] for row in rows_of(done.stdout)], ["00"] * 3)

    def test_one_that_cannot_be_measured_ends_with_the_reason(self):
        for algorithm, reason in (("window", "it needs all send buffers in a window"), ("routed_rings", "it needs ranks that are dealt out to several hosts"),
                                  ("routed_trees", "it needs trees that a search of the topology found"),
                                  ("hierarchical", "it needs several hosts")):
            done = self.forced(algorithm, "--ranks", 2)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"all_reduce by {algorithm} is not possible for 2 ranks: {reason}", done.stderr)
            self.assertEqual(rows_of(done.stdout), [])


class Files(unittest.TestCase):
    def test_json_has_the_keys_of_nccl_tests_and_no_secret(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "x.json"
            # Two runs: the second may not overwrite the first.
            for _ in range(2):
                perf("all_reduce", "--ranks", 2, "-b", 64, "-e", 512, "-f", 8, "-n", 3, "-I", 1, "-J", path,
                     environment={"HOCKET_SECRET": "hunter2hunter2hunter2", "HOCKET_LOG": "warn", "PRIVATE_TOKEN": "x"})
            self.assertTrue((pathlib.Path(folder) / "x.json.0").exists())
            text = path.read_text(encoding="utf-8")
        self.assertNotIn("hunter2", text)
        self.assertNotIn("PRIVATE_TOKEN", text)
        data = json.loads(text)
        self.assertLessEqual({"version", "start_time", "args", "env", "nccl_version", "config", "results",
                              "out_of_bounds", "average_bus_bandwidth", "errors", "end_time"}, set(data))
        self.assertEqual(data["env"], ["HOCKET_LOG=warn"])
        self.assertLessEqual({"nthreads", "ngpus", "minimum_bytes", "maximum_bytes", "step_factor", "warmup_iters",
                              "iterations", "aggregated_iterations", "validation", "graph", "blocking_collectives",
                              "per_iter_timing", "per_iter_skip", "parallel_init", "devices"}, set(data["config"]))
        self.assertEqual(set(data["config"]["devices"][1]),
                         {"rank", "group", "pid", "hostname", "device", "device_hex", "device_info"})
        self.assertEqual(len(data["results"]), 2)
        result = data["results"][1]
        self.assertEqual((result["size"], result["count"], result["type"], result["redop"], result["root"]),
                         (512, 128, "float", "sum", "    -1"))
        for half in ("out_of_place", "in_place"):
            self.assertEqual(set(result[half]), {"time", "alg_bw", "bus_bw", "nwrong"})
            self.assertEqual(result[half]["nwrong"], 0)
            self.assertEqual(len(result[half + "_per_iter"]["times_us"]), 3)
            self.assertEqual(len(result[half + "_per_iter"]["per_process_max_times_us"]), 2)
        self.assertEqual(result["actual_iterations"], 3)
        self.assertEqual(data["out_of_bounds"], {"count": 0, "okay": "true"})
        self.assertEqual(data["average_bus_bandwidth"]["okay"], "unchecked")

    def test_a_file_that_cannot_be_made_is_said(self):
        done = perf("all_reduce", "-b", 8, "-e", 8, "-J", "/nowhere/x.json")
        self.assertEqual(done.returncode, 0)
        self.assertIn("# skipping JSON output; /nowhere/x.json not accessible: No such file or directory", done.stdout)


class Failures(unittest.TestCase):
    def test_bad_flags_end_with_a_reason(self):
        for arguments, reason in ((["-b", "8T"], "not a size"), (["--ranks", "0"], "--ranks"),
                                  (["-o", "plus"], "operation"), (["-r", "5"], "only 1 ranks"), (["-e", "900G"], "two buffers")):
            done = perf("broadcast", *arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(reason, done.stderr)
            self.assertEqual(done.stdout, "")

    def test_a_wrong_element_is_counted(self):
        done = run(FAULTY, "wrong", "--ranks", 2, "-b", 64, "-e", 512, "-f", 8, "-n", 2)
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertEqual([row[8] + row[12] for row in rows_of(done.stdout)], ["11", "11"])
        self.assertIn("# Out of bounds values : 4 FAILED\n", done.stdout)

    def test_a_dead_rank_ends_the_run(self):
        started = time.monotonic()
        done = run(FAULTY, "dies", "--ranks", 3, "-b", 64, "-e", "64K", "-f", 2)
        self.assertEqual(done.returncode, 128 + signal.SIGKILL)
        self.assertIn("was killed by signal 9", done.stderr)
        self.assertLess(time.monotonic() - started, 20)

    def test_ctrl_c_ends_all_ranks(self):
        command = [str(PROGRAMS / "all_reduce_perf"), "--ranks", "3", "-b", "64", "-e", "64", "-N", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              start_new_session=True) as started:
            for line in started.stdout:
                if ROW.match(line):
                    break
            os.killpg(started.pid, signal.SIGINT)
            # Both pipes end only when the last of the processes has.
            started.communicate(timeout=20)
            self.assertEqual(started.returncode, 128 + signal.SIGINT)


class Benches(unittest.TestCase):
    def numbers(self, *command):
        done = run(PROGRAMS / command[0], *command[1:])
        self.assertEqual(done.returncode, 0, done.stderr)
        return [[float(word) for word in re.findall(rf"(?<![\w-]){NUMBER}(?![\w-])", line)]
                for line in done.stdout.splitlines()]

    def test_pipes_have_a_latency_and_a_throughput(self):
        for transport in ("local", "shm", "tcp"):
            bytes_sent, nanoseconds, *_ = self.numbers("pipe_bench", "--latency", 8, "--rounds", 100, transport)[-1]
            self.assertEqual(bytes_sent, 8)
            self.assertGreater(nanoseconds, 0)
            sliced, *rates = self.numbers("pipe_bench", "--slice", 4096, "--total", 10**6, transport)[-1]
            self.assertEqual(sliced, 4096)
            self.assertGreater(min(rates), 0)

    def test_codecs_have_a_speed(self):
        speeds = [row for row in self.numbers("codec_bench", 1, "fp16") if len(row) > 4]
        self.assertTrue(speeds and all(min(row) > 0 for row in speeds), speeds)

    def test_bad_words_end_with_a_reason(self):
        for command, reason in ((("codec_bench", "many"), "rounds"), (("codec_bench", 1, "int99"), "int99"),
                                (("pipe_bench", "pigeon"), "pigeon"), (("pipe_bench", "--latency", 0), "--latency")):
            done = run(PROGRAMS / command[0], *command[1:])
            self.assertGreater(done.returncode, 0, command)
            self.assertIn(reason, done.stderr)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        FAULTY = pathlib.Path(sys.argv.pop())
        PROGRAMS = pathlib.Path(sys.argv.pop())
    unittest.main()
