#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""tool_test.py PROGRAM: the program `hocket` as a user types it."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = "hocket"


def hocket(*words):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=300, check=False)


class ProgramTest(unittest.TestCase):
    def test_help_lists_the_commands(self):
        answer = hocket("--help")
        self.assertEqual(0, answer.returncode)
        self.assertRegex(answer.stdout, r"(?m)^ +topo ")

    def test_a_command_is_required_and_must_exist(self):
        for words in ([], ["no-such-command"]):
            answer = hocket(*words)
            self.assertNotEqual(0, answer.returncode)
            self.assertIn("subcommand is required", answer.stderr)

    def test_what_cannot_be_written_is_a_failure(self):
        for words in (["topo"], ["simulate", "--ranks", "2"], ["simulate", "--ranks", "64", "--links", "999"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                answer = subprocess.run([PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=300, check=False)
            self.assertEqual((1, 1), (answer.returncode, answer.stderr.count("\n")), answer.stderr)
            self.assertRegex(answer.stderr, r"^hocket \w+: .*(written|write|No space)")

    def test_topo_shows_this_machine(self):
        answer = hocket("topo")
        self.assertEqual(0, answer.returncode, answer.stderr)
        self.assertRegex(answer.stdout, r"(?m)^processor .*cpus \d")

    def test_run_puts_nccl_in_the_place_of_nccl(self):
        program = "import ctypes; v = ctypes.c_int(); ctypes.CDLL(None).ncclGetVersion(ctypes.byref(v)); print(v.value)"
        answer = hocket("run", "-n", "2", "--nccl", sys.executable, "-c", program)
        self.assertEqual("[0] 22809\n[1] 22809\n", "".join(sorted(answer.stdout.splitlines(True))), answer.stderr)
        self.assertNotEqual(0, hocket("run", sys.executable, "-c", program).returncode)

    def test_simulate_orders_the_algorithms_by_time(self):
        answer = hocket("simulate", "all_reduce", "--ranks", "64", "--bytes", "16M",
                        "--network", "8@200GB/s/1us,8@50GB/s/3us")
        self.assertEqual(0, answer.returncode, answer.stderr)
        times = [float(time) for time in re.findall(r"bytes: ([\d.]+) us", answer.stdout)]
        self.assertGreater(len(times), 5)
        self.assertEqual(sorted(times), times)

    def test_simulate_shows_what_a_fault_does(self):
        answer = hocket("simulate", "all_reduce", "--algorithm", "ring", "--ranks", "16", "--slow-link", "rank 3 up=10",
                        "--links", "1")
        self.assertRegex(answer.stdout, r"link 'rank 3 up' is 10 times as slow\nwith that, all_reduce ring")
        self.assertRegex(answer.stdout, r"(?m)^rank 3 up .*%$")
        answer = hocket("simulate", "all_reduce", "--algorithm", "ring", "--ranks", "16", "--dead-rank", "3=1us")
        self.assertIn("rank 4 lane 0 step 2 waits for a message from rank 3", answer.stdout)

    def test_simulate_takes_the_links_of_a_file(self):
        # Two sockets with two GPUs each: a ring sends six quarters from one socket to the other, one after the other.
        lines = ["hocket topology 1", "cpu cpu0", "cpu cpu1", "link cpu0 - cpu1 socket x1 1 GB/s 0.2 us"]
        lines += [f"gpu {gpu}\nlink {gpu} - cpu{i // 2} pci x16 10 GB/s 0.4 us" for i, gpu in enumerate("abcd")]
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "sockets.txt")
            source.write_text("\n".join(lines) + "\n", encoding="utf-8")
            words = ("simulate", "all_reduce", "--topology", str(source), "--bytes", "40K", "--algorithm", "ring")
            answer = hocket(*words, "--slow-link", "cpu0 > cpu1 socket=3", "--links", "1")
            self.assertEqual(0, answer.returncode, answer.stderr)
            self.assertIn("all_reduce ring, 4 ranks, 40960 bytes: 62.440 us", answer.stdout)
            self.assertIn("with that, all_reduce ring, 4 ranks, 40960 bytes: 185.320 us", answer.stdout)
            self.assertRegex(answer.stdout, r"(?m)^cpu0 > cpu1 socket +61440 +184.320 +99.5%$")
            answer = hocket(*words, "--slow-link", "cpu0 > cpu2 socket=3")
            self.assertIn("no link is named 'cpu0 > cpu2 socket'; there are 10 links, 'cpu0 > cpu1 socket' to", answer.stderr)
            for ranks in ("5", "1000000"):
                answer = hocket(*words[:-2], "--ranks", ranks)
                self.assertEqual((1, f"hocket simulate: --ranks: the topology has 4 seats for {ranks} ranks\n"),
                                 (answer.returncode, answer.stderr))
            self.assertIn("--topology: all_reduce window sends no messages", hocket(*words[:-1], "window").stderr)
            self.assertIn("it names no file", hocket("simulate", "--topology", "").stderr)
            self.assertIn("it names no file", hocket("topo", "--file", "").stderr)
            twice = hocket(*words, *2 * ("--slow-link", "cpu0 > cpu1 socket=3"))
            self.assertEqual((1, "hocket simulate: --slow-link: 'cpu0 > cpu1 socket' is named twice\n"),
                             (twice.returncode, twice.stderr))
            self.assertIn("--network excludes --topology", hocket(*words, "--network", "here").stderr)
            self.assertNotIn("window", hocket(*words[:-2]).stdout)
            source.write_text("hocket topology 1\nhost x\n", encoding="utf-8")
            answer = hocket(*words)
            self.assertEqual((1, f"hocket simulate: {source}: topology text line 2: expected the number of a host\n"),
                             (answer.returncode, answer.stderr))

    def test_what_is_simulated_on_links_is_what_is_explained_of_them(self):
        # A ring of eight that the ranks' numbers do not follow; everything else takes the slow way.
        lines = ["hocket topology 1", "cpu cpu0"] + [f"gpu g{i}\nlink g{i} - cpu0 pci x1 1 GB/s 1 us" for i in range(8)]
        order = [0, 3, 5, 1, 7, 2, 6, 4]
        lines += [f"link g{a} - g{b} nvlink x1 25 GB/s 0.6 us" for a, b in zip(order, order[1:] + order[:1])]
        with tempfile.TemporaryDirectory() as folder:
            source, tuning = pathlib.Path(folder, "ring.txt"), pathlib.Path(folder, "tuning")
            source.write_text("\n".join(lines) + "\n", encoding="utf-8")
            self.assertEqual(0, hocket("topo", "--file", str(source), "--tuning", str(tuning)).returncode)
            call = ("all_reduce", "--bytes", "256M")
            explained = hocket("explain", *call, "--ranks", "8", "--tuning", str(tuning), "--network", "8@50GB/s/1us").stdout
            simulated = hocket("simulate", *call, "--topology", str(source)).stdout
        predicted = {name: float(time) for name, time in re.findall(r"(?m)^[> ] (\w+)(?: by \d+ KiB)? +([\d.]+) ", explained)}
        took = {name: float(time) for name, time in re.findall(r"(?m)^all_reduce (\w+), .* bytes: ([\d.]+) us", simulated)}
        both = predicted.keys() & took.keys()
        self.assertGreater(len(both), 12)
        # These keep the busiest link busy; others leave it waiting, which the model does not count.
        for name in ("ring", "chain", "dual_root", "routed_rings", "routed_trees"):
            self.assertAlmostEqual(1, took[name] / predicted[name], delta=0.02, msg=name)
        for name in both:
            self.assertGreater(took[name] / predicted[name], 0.98, name)

    def test_simulate_writes_what_it_reads_and_a_timeline(self):
        with tempfile.TemporaryDirectory() as folder:
            goal, trace = folder + "/ring.goal", folder + "/trace.json"
            written = hocket("simulate", "all_reduce", "--algorithm", "ring", "--ranks", "4", "--bytes", "64K",
                             "--write-goal", goal, "--trace", trace)
            self.assertEqual(0, written.returncode, written.stderr)
            read = hocket("simulate", "--goal", goal)
            self.assertEqual(re.search(r"[\d.]+ us", written.stdout)[0], re.search(r"[\d.]+ us", read.stdout)[0])
            with open(trace, encoding="utf-8") as file:
                self.assertGreater(len(json.load(file)["traceEvents"]), 24)

    def test_simulate_says_what_is_wrong(self):
        for words, reason in ((["--network", "8@fast"], "'8@fast' is no level of a network, such as 8@40GB/s/300ns"),
                              (["--slow-link", "rank 99 up=2"], "no link is named 'rank 99 up'"),
                              (["--late-rank", "99=1us"], "--late-rank: '99' is not from 0 to 7"),
                              (["--algorithm", "none"], "no algorithm for all_reduce 'none'"),
                              (["--goal", "/no/such"], "--goal: cannot open '/no/such'"),
                              (["--slice", "1"], "--slice: 1 bytes are less than 64")):
            answer = hocket("simulate", "all_reduce", *words)
            self.assertEqual(1, answer.returncode)
            self.assertIn(reason, answer.stderr)

    def test_explain_says_what_is_chosen_and_what_would_help(self):
        answer = hocket("explain", "all_reduce", "--bytes", "64M", "--ranks", "8", "--network", "8@40GB/s/1us")
        self.assertEqual(0, answer.returncode, answer.stderr)
        self.assertRegex(answer.stdout, r"(?m)^> (\w+) .* host ports$")
        self.assertRegex(answer.stdout, r"Chosen: \w+, because the model")
        self.assertRegex(answer.stdout, r"twice the port bandwidth +[\d.]+ us by \w+, instead of")
        # Nowhere the best: it sends as much as a ring, in as many messages as there are pairs.
        answer = hocket("explain", "all_reduce", "--algorithm", "pairwise")
        self.assertIn("Chosen: pairwise, because it is forced.", answer.stdout)
        self.assertIn("The model finds", answer.stdout)

    def test_explain_takes_more_lanes_where_a_connection_is_slow(self):
        for network, lanes in (("1@40GB/s/1us,2@10GB/s/10us", r"\w+"),
                               ("1@40GB/s/1us,2@10GB/s/10us/2.5GB/s", r"\w+ over 4 lanes")):
            answer = hocket("explain", "all_reduce", "--bytes", "256M", "--ranks", "2", "--network", network)
            self.assertEqual(0, answer.returncode, answer.stderr)
            self.assertRegex(answer.stdout, f"Chosen: {lanes}, because the model")
        answer = hocket("explain", "all_reduce", "--algorithm", "ring", "--lanes", "3")
        self.assertIn("Chosen: ring over 3 lanes, because it is forced.", answer.stdout)

    def test_explain_cuts_to_the_pipes_memory(self):
        for words, slices in (((), " by 24 KiB"), (("--pipe-memory", "4"), " by 4 KiB"), (("--pipe-memory", "200"), ",")):
            answer = hocket("explain", "all_to_all", "--bytes", "64M", "--ranks", "64", *words)
            self.assertIn(f"Chosen: pairwise{slices}", answer.stdout, answer.stderr)

    def test_explain_says_whether_a_codec_is_used(self):
        left_out = "it is left out, for it does not save a tenth"
        for per_host, size, outcome in (("1", "32M", "it is used"), ("4", "32M", left_out), ("1", "1K", left_out)):
            answer = hocket("explain", "all_reduce", "--bytes", size, "--ranks", "4", "--per-host", per_host, "--codec",
                            "int8")
            self.assertEqual(0, answer.returncode, answer.stderr)
            self.assertRegex(answer.stdout, rf"Codec int8: [\d.]+ us with it, [\d.]+ us without: {outcome}")

    def test_explain_says_what_is_wrong(self):
        for words, reason in ((["no_such"], "no collective is named 'no_such'"),
                              (["all_reduce", "--bytes", "many"], "'many' is no size, such as 64M"),
                              (["all_reduce", "--tuning", "/no/such"], "--tuning: cannot open '/no/such'"),
                              (["all_reduce", "--network", "2@1GB/s/1us,2@1GB/s/1us,2@1GB/s/1us"], "3 levels")):
            answer = hocket("explain", *words)
            self.assertEqual(1, answer.returncode)
            self.assertIn(reason, answer.stderr)

    def test_tune_writes_a_file_that_explain_reads(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/tuning"
            answer = hocket("tune", "--collectives", "reduce_scatter", "--ranks", "2", "--from", "1K", "--to", "8K",
                            "--seconds", "1", "--connection", "400Mbit/s", "--out", path)
            self.assertEqual(0, answer.returncode, answer.stderr)
            self.assertRegex(answer.stdout, r"The model is off by [\d.]+ % in the median of \d+ times")
            if len(os.sched_getaffinity(0)) > 1:
                for when in ("before 2 ranks", "at the end"):
                    self.assertRegex(answer.stdout, rf"Cores \d+ and \d+ are \d+ ns apart {when}")
            answer = hocket("explain", "reduce_scatter", "--ranks", "2", "--bytes", "4K", "--tuning", path)
            self.assertIn("because the tuning file says that it was the fastest", answer.stdout)
            with open(path, encoding="utf-8") as file:
                self.assertIn("\nflow 20000000\n", file.read())
            with open(path, "a", encoding="utf-8") as file:
                file.write("damage")
            answer = hocket("explain", "all_reduce", "--tuning", path)
            self.assertIn("the checksum is wrong", answer.stderr)

    def test_tune_checks_a_file_on_other_times(self):
        with tempfile.TemporaryDirectory() as folder:
            samples, file = (str(pathlib.Path(folder, name)) for name in ("samples", "tuning"))
            for swing_us, ratio in ((200, "1.000"), (50, "2.000")):
                if swing_us == 50:
                    self.assertIn("cannot open", hocket("tune", "--check", "--out", folder + "/no", "--samples", samples).stderr)
                pathlib.Path(samples).write_text(f"all_reduce,swing,2,1048576,{swing_us}\nall_reduce,two_shot,2,1048576,100\n",
                                                 encoding="utf-8")
                checking = ["--check"] if swing_us == 50 else []
                answer = hocket("tune", *checking, "--samples", samples, "--cores", "2", "--out", file)
                self.assertIn(f"of what is chosen with this tuning: {ratio}", answer.stdout, answer.stderr)

    def test_tune_lets_another_run_say_what_is_the_fastest(self):
        def times(*pairs):
            return "".join(f"all_reduce,{algorithm},2,1048576,{us}\n" for algorithm, us in pairs)

        with tempfile.TemporaryDirectory() as folder:
            samples, judge, file = (pathlib.Path(folder, name) for name in ("samples", "judge", "tuning"))
            samples.write_text(times(("swing", 100), ("two_shot", 200)), encoding="utf-8")
            self.assertEqual(0, hocket("tune", "--samples", str(samples), "--cores", "2", "--out", str(file)).returncode)
            samples.write_text(times(("swing", 100), ("two_shot", 50), ("ring", 80)), encoding="utf-8")
            check = ["tune", "--check", "--samples", str(samples), "--cores", "2", "--out", str(file), "--judge", str(judge)]
            for said, ratio in ((times(("swing", 10), ("two_shot", 20)), "1.000"), (times(("ring", 9), ("swing", 20)), "1.250"),
                                (times(("pairwise", 5)), "2.000"), ("all_reduce,swing,4,1024,1\n", "2.000")):
                judge.write_text(said, encoding="utf-8")
                self.assertIn(f"of what is chosen with this tuning: {ratio}", hocket(*check).stdout, said)
            judge.write_text(times(("swing", 120), ("ring", 80), ("two_shot", 40), ("pairwise", 1)), encoding="utf-8")
            self.assertIn("The judge's times differ from these by 20.0 % in the median", hocket(*check).stdout)
            judge.write_text("all_reduce,swing\n", encoding="utf-8")
            self.assertIn("judge: line 1: 'all_reduce,swing' is no sample", hocket(*check).stderr)
            judge.unlink()
            self.assertIn("--judge", hocket(*check).stderr)

    def test_tune_measures_between_launched_ranks(self):
        tune = "tune --launched --from 1K --to 1K --seconds 0.1"
        with tempfile.TemporaryDirectory() as folder:
            for host, medium in (("one", "memory"), ("host-$HOCKET_RANK", "network")):
                path = pathlib.Path(folder, medium)
                answer = hocket("run", "-n", "2", "sh", "-c",
                                f"HOCKET_HOST_ID={host} exec {PROGRAM} {tune} --port 1Gbit/s --out {path}")
                self.assertEqual(0, answer.returncode, answer.stderr)
                self.assertEqual(1, answer.stdout.count("The model is off by"), "rank 0 alone reports")
                text = path.read_text(encoding="utf-8")
                self.assertRegex(text, rf"(?m)^best all_reduce 2 {medium} 1024 ")
                self.assertRegex(text, rf"(?m)^{medium} (\d+ ){{5}}[1-9]\d* ", "a port that costs something")

    def test_tune_takes_network_namespaces_for_hosts_as_the_library_does(self):
        script, prefix = str(pathlib.Path(__file__).resolve().parents[1] / "netns/hosts.sh"), f"hkt{os.getpid()}"
        if os.geteuid() != 0 or subprocess.run([script, "up", prefix, "2"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no network namespaces: they need root and `ip`")
        self.addCleanup(subprocess.run, [script, "down", prefix, "2"], check=True)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "tuning")
            tune = ["tune", "--launched", "--from", "1K", "--to", "1K", "--seconds", "0.1", "--out", str(path)]
            ranks = [subprocess.Popen(["ip", "netns", "exec", f"{prefix}{rank}", PROGRAM, *tune], stdout=subprocess.DEVNULL,
                                      env={**os.environ, "HOCKET_RANK": str(rank), "HOCKET_SIZE": "2",
                                           "HOCKET_ADDRESS": "10.77.0.1:4488", "HOCKET_SECRET": "two"}) for rank in (0, 1)]
            for rank in ranks:
                self.addCleanup(rank.kill)
            self.assertEqual([0, 0], [rank.wait(timeout=60) for rank in ranks])
            self.assertRegex(path.read_text(encoding="utf-8"), r"(?m)^best all_reduce 2 network 1024 ")

    def test_tune_refuses_ranks_that_lie_otherwise(self):
        self.assertIn("--launched: no launcher has started several ranks", hocket("tune", "--launched").stderr)
        answer = hocket("run", "-n", "3", "sh", "-c", f"HOCKET_HOST_ID=$((HOCKET_RANK / 2)) exec {PROGRAM} tune --launched")
        self.assertNotEqual(0, answer.returncode)
        self.assertIn("--launched: 3 ranks on 2 hosts: start one on each, or all on one", answer.stderr)

    def test_tune_refuses_before_it_measures(self):
        with tempfile.TemporaryDirectory() as folder:
            for words, reason in ((["--port", "fast"], "--port: 'fast' is no rate, such as 12.5GB/s"),
                                  (["--connection", "1"], "--connection: '1' is no rate, such as 12.5GB/s"),
                                  (["--out", folder], f"--out: cannot write '{folder}': Is a directory"),
                                  (["--out", f"{folder}/no/file"], "/no/file': No such file or directory"),
                                  (["--save", folder], f"--save: cannot write '{folder}': Is a directory"),
                                  (["--seconds", "nan"], "'nan' is no number")):
                begin = time.monotonic()
                answer = hocket("tune", "--ranks", "2", "--seconds", "60", *words)
                self.assertNotEqual(0, answer.returncode)
                self.assertIn(reason, answer.stderr)
                self.assertLess(time.monotonic() - begin, 50, words)
            self.assertEqual([], os.listdir(folder))

    def test_other_files_are_not_written_over(self):
        with tempfile.TemporaryDirectory() as folder:
            samples, file = pathlib.Path(folder, "samples"), pathlib.Path(folder, "letters")
            samples.write_text("all_reduce,ring,2,1024,10\n", encoding="utf-8")
            from_samples = ["tune", "--samples", str(samples), "--out", str(file)]
            for before in ("", "hocket-tuning 1\nof old\n"):
                file.write_text(before, encoding="utf-8")
                self.assertEqual(0, hocket(*from_samples).returncode)
                self.assertIn("machine samples", file.read_text(encoding="utf-8"))
            file.write_text("dear diary\n", encoding="utf-8")
            for words in (from_samples, ["tune", "--ranks", "2", "--out", str(file)], ["topo", "--tuning", str(file)]):
                self.assertIn("is no tuning file, and stays as it is", hocket(*words).stderr)
                self.assertEqual("dear diary\n", file.read_text(encoding="utf-8"))

    def test_topo_reads_and_draws_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            source, picture = pathlib.Path(folder, "pair.txt"), pathlib.Path(folder, "pair.svg")
            source.write_text("hocket topology 1\ngpu a\ngpu b\nlink a - b nvlink x4 100 GB/s 0.6 us\n", encoding="utf-8")
            answer = hocket("topo", "--file", str(source), "--svg", str(picture))
            self.assertEqual(0, answer.returncode, answer.stderr)
            self.assertIn("4 of 25 GB/s over fast links, 100 GB/s in all; no schedule has more than 100", answer.stdout)
            self.assertTrue(picture.read_text(encoding="utf-8").startswith("<svg"))
            self.assertEqual(source.read_text(encoding="utf-8"), hocket("topo", "--text", "--file", str(source)).stdout)

    def test_topo_as_text_shows_nothing_else(self):
        for option in ("--graphs", "--svg"):
            answer = hocket("topo", "--text", option, "/nonexistent/file")
            self.assertNotEqual(0, answer.returncode)
            self.assertIn(f"{option} excludes --text", answer.stderr)

    def test_topo_writes_what_others_read(self):
        # Eight GPUs around a switch, with a NIC.
        lines = ["hocket topology 1"] + [f"gpu gpu{i} sm_90 @0000:{i + 16:02x}:00.0" for i in range(8)]
        lines += ["cpu cpu0 arm64"] + [f"link gpu{i} - cpu0 pci x16 12 GB/s 0.4 us" for i in range(8)]
        lines += ["nic nic0000:30:00.0", "link nic0000:30:00.0 - cpu0 pci x16 12 GB/s 0.4 us", "fabric nvswitch"]
        lines += [f"link gpu{i} - nvswitch nvlink x18 450 GB/s 0.6 us" for i in range(8)]
        with tempfile.TemporaryDirectory() as folder:
            source, other = pathlib.Path(folder, "eight.txt"), pathlib.Path(folder, "other")

            def written(form):
                answer = hocket("topo", "--file", str(source), "--format", form)
                self.assertEqual(0, answer.returncode, answer.stderr)
                other.write_text(answer.stdout, encoding="utf-8")
                return answer.stderr
            source.write_text("\n".join(lines) + "\n", encoding="utf-8")
            whole = hocket("topo", "--text", "--file", str(source)).stdout
            self.assertEqual("", written("text"))
            self.assertEqual(whole, other.read_text(encoding="utf-8"))
            self.assertEqual("", written("nccl"))
            self.assertEqual(sorted(whole.splitlines()), sorted(hocket("topo", "--text", "--file", str(other)).stdout.splitlines()))
            self.assertEqual("", written("nvidia-smi"))
            self.assertRegex(hocket("topo", "--file", str(other)).stdout, r"(?m)^rings .* 450 GB/s in all; .* more than 450$")
            self.assertEqual("warning    lost: 10 of 10 trees branch\n", written("nccl-graph"))
            answer = hocket("topo", "--file", str(source), "--graphs", str(other))
            self.assertIn("nccl       18 rings of 25 GB/s, 450 GB/s in all\n", answer.stdout)
            source.write_text(source.read_text(encoding="utf-8").replace("x18 450 GB/s", "x18 440 GB/s"), encoding="utf-8")
            self.assertIn("warning    lost: 56 pairs of seats are told otherwise, as 450 GB/s, not 440, from gpu0 to gpu1\n", written("nccl"))
            source.write_text("hocket topology 1\ncpu cpu0\n", encoding="utf-8")
            for form, reason in (("nccl", "ranks sit on GPUs, of which there are none"), ("nvidia-smi", "there are no GPUs"),
                                 ("nccl-graph", "NCCL's graphs: ranks sit on GPUs, of which there are none"), ("dot", "dot not in {")):
                answer = hocket("topo", "--file", str(source), "--format", form)
                self.assertNotEqual(0, answer.returncode)
                self.assertIn(reason, answer.stderr)

    def test_topo_tells_what_was_odd_beside_what_it_writes(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "odd.xml")
            source.write_text('<system><cpu numaid="0"><pci busid="0000:01:00.0" class="0x030200"><gpu sm="90">'
                              '<nvlink target="0000:01:00.0" count="1" tclass="0x030200"/></gpu></pci></cpu></system>', encoding="utf-8")
            answer = hocket("topo", "--file", str(source), "--text")
            self.assertEqual(0, answer.returncode, answer.stderr)
            self.assertRegex(answer.stderr, r"^warning    .*leads back to its own GPU")

    def test_topo_shows_what_nccl_found_beside_what_we_find(self):
        with tempfile.TemporaryDirectory() as folder:
            source, graphs = pathlib.Path(folder, "pair.txt"), pathlib.Path(folder, "graphs.xml")
            source.write_text("hocket topology 1\ngpu a\ngpu b\nlink a - b nvlink x4 100 GB/s 0.6 us\n", encoding="utf-8")
            written = "".join(f'<graph id="0" pattern="{pattern}" speedintra="12"><channel><gpu dev="1"/><gpu dev="0"/></channel></graph>'
                              for pattern in (4, 1, 5))
            graphs.write_text(f'<graphs version="1">{written}</graphs>', encoding="utf-8")
            answer = hocket("topo", "--file", str(source), "--graphs", str(graphs))
            self.assertEqual(0, answer.returncode, answer.stderr)
            for kind in ("rings", "trees", "multicasts"):
                self.assertIn(f"nccl       1 {kind} of 12 GB/s, 12 GB/s in all\n           1 0\n", answer.stdout)
            graphs.write_text(graphs.read_text(encoding="utf-8").replace('dev="1"', 'dev="2"'), encoding="utf-8")
            answer = hocket("topo", "--file", str(source), "--graphs", str(graphs))
            self.assertEqual(1, answer.returncode)
            self.assertIn(f"{graphs}: GPU 2 is none of 2 seats", answer.stderr)

    def test_topo_measures_this_machine_alone_and_between_ranks(self):
        answer = hocket("topo", "--measure")
        self.assertEqual(0, answer.returncode, answer.stderr)
        # Whatever the machine is like, something of it can be measured or else is told to be claimed.
        self.assertRegex(answer.stdout, r"(?m)^(measured|claimed)   +\S.* GB/s")
        self.assertNotIn("ranks 0 and 1", answer.stdout)
        answer = hocket("run", "-n", "2", PROGRAM, "topo", "--measure")
        self.assertEqual(0, answer.returncode, answer.stderr)
        self.assertEqual(1, len(re.findall(r"(?m)^\[0\] measured   ranks 0 and 1 \(.*\): [\d.]+ us, [\d.e+]+ GB/s$",
                                           answer.stdout)), answer.stdout)

    def test_topo_names_the_hosts_of_ranks(self):
        answer = hocket("run", "-n", "3", "sh", "-c", f"HOCKET_HOST_ID=host-$((HOCKET_RANK / 2)) exec {PROGRAM} topo --measure")
        self.assertEqual(0, answer.returncode, answer.stderr)
        for ranks, hosts in (("0 and 1", "host-0"), ("0 and 2", "host-0, host-1"), ("1 and 2", "host-0, host-1")):
            self.assertIn(f"[0] measured   ranks {ranks} ({hosts}): ", answer.stdout)

    def test_topo_marks_what_was_measured_in_its_text(self):
        with tempfile.TemporaryDirectory() as folder:
            text = pathlib.Path(folder, "here.txt")
            text.write_text(hocket("topo", "--measure", "--text").stdout, encoding="utf-8")
            self.assertRegex(text.read_text(encoding="utf-8"), r"(?m)^hocket topology 1$")
            self.assertEqual(text.read_text(encoding="utf-8"), hocket("topo", "--text", "--file", str(text)).stdout)
            self.assertNotEqual(0, hocket("topo", "--measure", "--file", str(text)).returncode)

    def test_topo_routes_go_into_a_tuning_file_and_are_chosen(self):
        # A ring of eight with nothing across: who sends elsewhere than to a neighbour takes the slow way round.
        lines = ["hocket topology 1", "cpu cpu0"] + [f"gpu g{i}" for i in range(8)]
        order = [0, 3, 5, 1, 7, 2, 6, 4]
        lines += [f"link g{a} - g{b} nvlink x1 25 GB/s 0.6 us" for a, b in zip(order, order[1:] + order[:1])]
        lines += [f"link g{i} - cpu0 pci x1 1 GB/s 1 us" for i in range(8)]
        with tempfile.TemporaryDirectory() as folder:
            source, tuning = pathlib.Path(folder, "ring.txt"), pathlib.Path(folder, "tuning")
            source.write_text("\n".join(lines) + "\n", encoding="utf-8")
            answer = hocket("topo", "--file", str(source), "--tuning", str(tuning))
            self.assertEqual(0, answer.returncode, answer.stderr)
            self.assertIn("trees ", answer.stdout)
            text = tuning.read_text(encoding="utf-8")
            self.assertRegex(text, r"(?m)^ring 0 3 5 1 7 2 6 4$")
            self.assertRegex(text, r"(?m)^tree( \d){8}$")
            self.assertRegex(text, r"(?m)^load all_reduce routed_trees \d+$")
            for collective, chosen in (("all_reduce", "routed_(rings|trees)"), ("broadcast", "routed_trees")):
                answer = hocket("explain", collective, "--bytes", "256M", "--ranks", "8", "--tuning", str(tuning),
                                "--network", "8@50GB/s/1us")
                self.assertRegex(answer.stdout, f"Chosen: {chosen}[ ,]")
            answer = hocket("explain", "all_reduce", "--bytes", "256M", "--ranks", "7", "--tuning", str(tuning),
                            "--network", "8@50GB/s/1us")
            self.assertNotIn("routed", answer.stdout)

    def test_synthesise_makes_proved_plans_of_what_links_are_left(self):
        links = "".join(f"link g{a} - g{b} nvlink x1 25 GB/s 0.6 us\n" for a, b in ((0, 1), (1, 2), (2, 3), (0, 2)))
        with tempfile.TemporaryDirectory() as folder:
            source, plans = pathlib.Path(folder, "four.txt"), pathlib.Path(folder, "plans.xml")
            source.write_text("hocket topology 1\n" + "".join(f"gpu g{i}\n" for i in range(4)) + links, encoding="utf-8")
            answer = hocket("synthesise", "all_reduce", "--file", str(source), "--out", str(plans))
            self.assertEqual(0, answer.returncode, answer.stderr)
            # One GPU has but one link.
            self.assertRegex(answer.stdout, r"all_reduce of 4 ranks over 8 wires: proved; 25 GB/s, and no .* more than 25;")
            self.assertTrue(plans.read_text(encoding="utf-8").startswith('<algo name="synthesised"'))
            # Around a switch, whose links all ways share.
            switch = pathlib.Path(folder, "switch.txt")
            switch.write_text("hocket topology 1\nfabric s\n" + "".join(
                f"gpu g{i}\nlink g{i} - s nvlink x1 25 GB/s 0.6 us\n" for i in range(5)), encoding="utf-8")
            answer = hocket("synthesise", "all_gather", "--file", str(switch))
            self.assertRegex(answer.stdout, r"all_gather of 5 ranks over 20 wires: proved; 25 GB/s, and no .* more than 25;")
            source.write_text(source.read_text(encoding="utf-8").replace("link g2 - g3", "link g2 - g1"), encoding="utf-8")
            answer = hocket("synthesise", "--file", str(source))
            self.assertEqual(1, answer.returncode)

    def test_topo_does_not_search_what_is_too_large(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "large.txt")
            gpus = "".join(f"gpu g{i}\nlink g{i} - s nvlink x1 25 GB/s 1 us\n" for i in range(20000))
            source.write_text(f"hocket topology 1\nfabric s\n{gpus}", encoding="utf-8")
            answer = hocket("topo", "--file", str(source))
            self.assertEqual(0, answer.returncode, answer.stderr)
            self.assertIn("neither they nor trees are looked for: 20000 seats and 40000 links are too many", answer.stdout)

    def test_topo_shows_the_rails_of_several_hosts(self):
        # The second host has its NICs the other way round.
        lines = ["hocket topology 1"]
        for host, mark, nics in ((0, "", (0, 1)), (1, "@1", (1, 0))):
            lines += [f"host {host}", f"cpu cpu0{mark}"]
            for gpu, nic in enumerate(nics):
                lines += [f"gpu gpu{2 * host + gpu}", f"nic mlx5_{nic}{mark}", f"pci p{gpu}{mark}",
                          f"link p{gpu}{mark} - cpu0{mark} pci x16 12 GB/s 0.4 us"]
                lines += [f"link {device} - p{gpu}{mark} pci x16 12 GB/s 0.4 us" for device in (f"gpu{2 * host + gpu}", f"mlx5_{nic}{mark}")]
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "rails.txt")
            source.write_text("\n".join(lines) + "\n", encoding="utf-8")
            self.assertIn("\nrails      {0 3} {1 2}\n", hocket("topo", "--file", str(source)).stdout)

    def test_plans_across_hosts_go_by_rails(self):
        # A switch for each rail; the second host has its NICs the other way round.
        lines = ["hocket topology 1", "network net0", "network net1"]
        for host, mark, nics in ((0, "", (0, 1)), (1, "@1", (1, 0))):
            lines += [f"host {host}", f"cpu cpu0{mark}"]
            for gpu, nic in enumerate(nics):
                lines += [f"gpu gpu{2 * host + gpu}", f"nic mlx5_{nic}{mark}", f"pci p{gpu}{mark}",
                          f"link p{gpu}{mark} - cpu0{mark} pci x16 12 GB/s 0.4 us",
                          f"link mlx5_{nic}{mark} - net{nic} network x1 12 GB/s 1 us"]
                lines += [f"link {device} - p{gpu}{mark} pci x16 12 GB/s 0.4 us" for device in (f"gpu{2 * host + gpu}", f"mlx5_{nic}{mark}")]
        with tempfile.TemporaryDirectory() as folder:
            source, tuning = pathlib.Path(folder, "rails.txt"), pathlib.Path(folder, "tuning.txt")
            source.write_text("\n".join(lines) + "\n", encoding="utf-8")
            self.assertEqual(0, hocket("topo", "--file", str(source), "--tuning", str(tuning)).returncode)
            self.assertIn("\nrails 0 1 1 0\n", tuning.read_text(encoding="utf-8"))
            answer = hocket("explain", "all_reduce", "--ranks", "4", "--per-host", "2", "--tuning", str(tuning))
            self.assertIn("\nRails join, between hosts: {0 3} {1 2}\n", answer.stdout)
            self.assertNotIn("Rails", hocket("explain", "all_reduce", "--ranks", "4", "--per-host", "2").stdout)
            # Ranks 0 and 3 exchange their half, and so do 1 and 2; each is carried by its own rail alone.
            answer = hocket("plan", "all_reduce", "--algorithm", "hierarchical", "--topology", str(source), "--rank", "0")
            self.assertEqual(0, answer.returncode, answer.stderr)
            self.assertIn("to 3 ", answer.stdout)
            self.assertNotIn("to 2 ", answer.stdout)
            answer = hocket("simulate", "all_reduce", "--algorithm", "hierarchical", "--topology", str(source), "--bytes", "1M",
                            "--links", "40")
            self.assertEqual(0, answer.returncode, answer.stderr)
            self.assertRegex(answer.stdout, r"(?m)^mlx5_0 > net0 network +524288 ")

    def test_plan_prints_and_exports_any_algorithm(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder, "ring.xml")
            answer = hocket("plan", "all_gather", "--algorithm", "sparbit", "--ranks", "6", "--format", "msccl", "--out", str(out))
            self.assertEqual((0, "", ""), (answer.returncode, answer.stdout, answer.stderr))
            self.assertTrue(out.read_text(encoding="utf-8").startswith('<algo name="sparbit"'))
            again = hocket("plan", "--file", str(out), "--rank", "5")
            self.assertTrue(again.stdout.startswith("hocket plan 1\nall_gather "), again.stdout[:80])
            self.assertIn("\nrank 5 of 6,", again.stdout)
            out.write_text(out.read_text(encoding="utf-8").replace('dstoff="1"', 'dstoff="2"', 1), encoding="utf-8")
            answer = hocket("plan", "--file", str(out))
            self.assertEqual(1, answer.returncode)
            self.assertIn(str(out), answer.stderr)
        answer = hocket("plan", "all_reduce", "--algorithm", "ring", "--ranks", "3")
        self.assertEqual(3, answer.stdout.count("hocket plan 1\nall_reduce ring\n"))
        answer = hocket("plan", "broadcast", "--algorithm", "circulant", "--ranks", "100000", "--rank", "99999")
        self.assertIn("\nrank 99999 of 100000,", answer.stdout)
        answer = hocket("plan", "all_reduce", "--algorithm", "hierarchical", "--ranks", "6", "--per-host", "3", "--format", "msccl")
        self.assertTrue(answer.stdout.startswith('<algo name="hierarchical"'), answer.stderr)
        for words, reason in ((("all_reduce", "--algorithm", "rign"), "all_reduce has no 'rign', but ring,"),
                              (("all_reduce", "--algorithm", "ring", "--rank", "8"), "--rank: 8 is none of 8 ranks"),
                              (("broadcast", "--algorithm", "chain", "--root", "8"), "--root: 8 is none of 8 ranks"),
                              (("all_reduce", "--algorithm", "ring", "--ranks", "5000"), "more than 1024 are not proved at once"),
                              (("all_reduce", "--algorithm", "hierarchical"), "all_reduce by hierarchical of 8 ranks: "),
                              (("all_reduce", "--algorithm", "ring", "--rank", "0", "--format", "msccl"),
                               "--rank: MSCCL's XML holds the plans of all ranks"),
                              (("all_sum", "--algorithm", "ring"), "no collective is named 'all_sum'")):
            answer = hocket("plan", *words)
            self.assertEqual(1, answer.returncode)
            self.assertIn(reason, answer.stderr)

    def test_topo_writes_hwlocs_form(self):
        with tempfile.TemporaryDirectory() as folder:
            source, written = pathlib.Path(folder, "pair.txt"), pathlib.Path(folder, "pair.xml")
            source.write_text("hocket topology 1\ncpu cpu0\ngpu gpu0\ngpu gpu1\nlink gpu0 - cpu0 pci x16 12 GB/s 0.4 us\n"
                              "link gpu1 - cpu0 pci x16 12 GB/s 0.4 us\nlink gpu0 - gpu1 nvlink x4 100 GB/s 0.6 us\n",
                              encoding="utf-8")
            answer = hocket("topo", "--file", str(source), "--format", "hwloc")
            self.assertEqual((0, ""), (answer.returncode, answer.stderr))
            written.write_text(answer.stdout, encoding="utf-8")
            self.assertIn("100 GB/s in all", hocket("topo", "--file", str(written)).stdout)

    def test_topo_names_file_line_and_reason(self):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write("<system>\n<cpu/>\n</system>")
            file.flush()
            answer = hocket("topo", "--file", file.name)
        self.assertEqual(1, answer.returncode)
        self.assertEqual(f"hocket topo: {file.name}: line 2: <cpu>: it has no numaid\n", answer.stderr)


class RunTest(unittest.TestCase):
    def test_every_rank_knows_its_place(self):
        answer = hocket("run", "-n", "3", "sh", "-c", "echo $HOCKET_RANK/$HOCKET_SIZE $RANK/$WORLD_SIZE $LOCAL_RANK "
                        "$MASTER_ADDR:$MASTER_PORT $HOCKET_ADDRESS $HOCKET_SECRET; printf 'no end'; echo loud >&2")
        self.assertEqual(0, answer.returncode, answer.stderr)
        lines = sorted(answer.stdout.splitlines())
        self.assertEqual([f"[{rank}] no end" for rank in range(3)], [line for line in lines if "no end" in line])
        places = [line for line in lines if "/" in line]
        for rank, line in enumerate(places):
            self.assertRegex(line, rf"^\[{rank}\] {rank}/3 {rank}/3 {rank} 127.0.0.1:\d+ 127.0.0.1:\d+ [0-9a-f]{{32}}$")
        self.assertEqual(1, len({line.split(maxsplit=3)[3].split(" ", 1)[1] for line in places}), "all meet at one place")
        self.assertEqual(["[0] loud", "[1] loud", "[2] loud"], sorted(answer.stderr.splitlines()))

    def test_the_first_failure_ends_all_and_is_told(self):
        for end, status in (("exit 7", 7), ("kill -9 $$", 137)):
            answer = hocket("run", "-n", "3", "sh", "-c", f"[ $RANK = 1 ] && {end}; sleep 50 & wait")
            self.assertEqual(status, answer.returncode)
            self.assertEqual(f"hocket run: rank 1 ended with status {status}\n", answer.stderr)

    def test_a_signal_ends_all(self):
        process = subprocess.Popen([PROGRAM, "run", "-n", "2", "--plain", "sh", "-c",
                                    "trap 'echo interrupted; exit 0' INT; echo here; sleep 50 & wait"],
                                   stdout=subprocess.PIPE, text=True)
        self.assertEqual(["here\n"] * 2, [process.stdout.readline() for _ in range(2)])
        process.send_signal(2)
        self.assertEqual("interrupted\n" * 2, process.communicate(timeout=60)[0])
        self.assertEqual(130, process.returncode)

    def test_who_started_us_is_forgotten(self):
        answer = subprocess.run([PROGRAM, "run", "-n", "1", "env"], capture_output=True, text=True, timeout=60, check=True,
                                env={"SLURM_PROCID": "3", "OMPI_COMM_WORLD_RANK": "1", "TORCHELASTIC_RUN_ID": "x",
                                     "HOCKET_NEWCOMER": "y", "PATH": "/usr/bin:/bin"})
        self.assertNotRegex(answer.stdout, "SLURM_PROCID|OMPI|TORCHELASTIC|NEWCOMER")

    def test_another_takes_the_place_of_one_that_died(self):
        answer = hocket("run", "-n", "2", "--min", "1", "sh", "-c",
                        "[ \"$RANK\" = 1 ] && exit 5; [ \"$RANK\" = 0 ] && sleep 1 && exit 0; "
                        "echo $HOCKET_NEWCOMER $HOROVOD_ELASTIC; cat $HOCKET_ELASTIC/least; sleep 50 & wait")
        self.assertEqual(0, answer.returncode, "who waited in vain is no failure")
        self.assertEqual("[new1] new1 1\n[new1] 1\n", answer.stdout)
        self.assertIn("rank 1 ended with status 5", answer.stderr)

    def test_newcomers_that_nobody_can_take_in_are_ended(self):
        answer = hocket("run", "-n", "2", "--min", "1", "sh", "-c", "[ $HOCKET_NEWCOMER ] && sleep 50; exit 5")
        self.assertEqual(5, answer.returncode)

    def test_the_programs_options_are_its_own(self):
        self.assertEqual("[0] -n 3 --min 1\n", hocket("run", "-n", "1", "echo", "-n 3", "--min", "1").stdout)
        self.assertEqual("[0] 3 --plain\n", hocket("run", "-n", "1", "printf", "%s %s", "3", "--plain").stdout)

    def test_who_ended_while_nobody_looked_was_there(self):
        process = subprocess.Popen([PROGRAM, "run", "-n", "3", "--min", "2", "--restarts", "0", "sh", "-c",
                                    "echo here; sleep 1; [ $RANK = 1 ] && kill -9 $$; exit 0"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3):
            process.stdout.readline()
        process.send_signal(signal.SIGSTOP)
        time.sleep(3)
        process.send_signal(signal.SIGCONT)
        error = process.communicate(timeout=60)[1]
        self.assertEqual(0, process.returncode, "two of three came to their end")
        self.assertIn("rank 1 ended with status 137", error)

    def test_too_many_deaths_are_a_failure(self):
        answer = hocket("run", "-n", "2", "--min", "2", "--restarts", "1", "sh", "-c", "[ \"$RANK\" = 0 ] && sleep 50; exit 5")
        self.assertEqual(5, answer.returncode)
        self.assertEqual(2, answer.stderr.count("ended with status 5"))

    def test_refusals(self):
        for words, why in ((["-n", "2"], "which program"), (["-n", "0", "true"], "range"), (["no-such-program"], "no such file"),
                           (["-n", "1", "--min", "2", "true"], "--min: 2 is more than the 1")):
            answer = hocket("run", *words)
            self.assertNotEqual(0, answer.returncode)
            self.assertIn(why, answer.stderr)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PROGRAM = sys.argv.pop(1)
    unittest.main()
