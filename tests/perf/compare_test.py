#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""perf/compare/compare.py with peers of paper: what it concludes, what it refuses."""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "perf" / "compare"))
import compare  # noqa: E402  pylint: disable=wrong-import-position
import peers  # noqa: E402  pylint: disable=wrong-import-position


class Paper(peers.Peer):
    """Takes as long as its list says, round after round."""

    def __init__(self, name, times):
        super().__init__(name, "1", ("shm",))
        self.times = iter(times)

    def measure(self, transport, ranks, collective, sizes):
        time = next(self.times)
        return {size: time for size in sizes}


def quiet(function, *arguments):
    with contextlib.redirect_stdout(io.StringIO()) as text:
        result = function(*arguments)
    return result, text.getvalue()


class Conclusions(unittest.TestCase):
    def compare(self, hocket, **others):
        papers = [Paper(name, times) for name, times in others.items()]
        pairs = compare.compare_one(Paper("Hocket", hocket), papers, ("shm", 2, "all_reduce"), [64],
                                    len(hocket) // len(papers), lambda text: None)
        return [{"transport": "shm", "ranks": 2, "collective": "all_reduce", "rows": compare.summarize(pairs, [64])}]

    def test_ratios_are_those_of_neighbours(self):
        # The machine slows down fivefold in the second round; the ratios stay.
        results = self.compare([10, 10, 50, 50, 10, 10], fast=[5, 25, 5], slow=[20, 100, 20])
        row = results[0]["rows"][0]
        self.assertEqual((row["fastest"], row["to_fastest"]), ("fast", 2))
        self.assertEqual((row["slowest"], row["to_slowest"]), ("slow", 0.5))
        self.assertEqual(quiet(compare.verdict, results)[0], 0)

    def test_what_is_written_by_hand_is_a_limit_and_no_peer(self):
        row = self.compare([10, 10], peer=[20], **{compare.BY_HAND: [5]})[0]["rows"][0]
        self.assertEqual((row["fastest"], row["slowest"]), ("peer", "peer"))
        self.assertEqual((row["by_hand"]["time_us"], row["by_hand"]["ratio"]), (5, 2))

    def test_where_the_cores_were_is_told_apart(self):
        times = [(10, 5, "near"), (30, 10, "far"), (10, 10, "near"), (40, 10, "far"), (12, 8, "near")]
        row = compare.summarize({"peer": {64: times}}, [64])[0]
        self.assertEqual(row["to_fastest"], 2)
        self.assertEqual(row["peers"]["peer"]["by_mode"], {"far": {"ratio": 3.5, "rounds": 2}, "near": {"ratio": 1.5, "rounds": 3}})
        _, text = quiet(compare.print_table, ("shm", 2, "all_reduce"), [row])
        self.assertIn("far 3.50 (2), near 1.50 (3);", text)
        self.assertEqual(peers.mode_of("# Core latency: cpu 0 to 1: 159 ns (far)\n# Core latency         : cpu 0 to 1: 40 ns (near)"), "moved")
        self.assertEqual(peers.mode_of("# Core latency: cpu 0 to 1: 159 ns (far)\n# Core latency : cpu 0 to 1: 163 ns (far)"), "far")

    def test_by_hand_the_better_of_what_the_transport_allows(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "limits"
            program.write_text("""#!/bin/sh
echo '# all-reduce, median (best) of 3
 # bytes        flag           oneshot          staged          socket         pieces
      64           -  4.00 (    1.00)  3.00 ( 2.00)  9.00 (8.00)  8.50 (8.40)'""", encoding="utf-8")
            program.chmod(0o755)
            by_hand = peers.ByHand(compare.BY_HAND, "1", ("shm", "tcp"), ("all_reduce",), program)
            self.assertEqual(by_hand.measure("shm", 2, "all_reduce", [64]), {64: 3.0})
            self.assertEqual(by_hand.measure("tcp", 2, "all_reduce", [64]), {64: 8.5})
            self.assertFalse(by_hand.can("shm", 4, "all_reduce"))

    def test_slower_than_the_slowest_fails(self):
        results = self.compare([30, 30], fast=[5], slow=[20])
        status, text = quiet(compare.verdict, results)
        self.assertEqual(status, 1)
        self.assertIn("slower than the slowest peer (slow): 64 B, 2 ranks, shm, all_reduce: 1.50", text)

    def test_groups_hold_every_size_once(self):
        sizes = compare.FULL_SIZES
        self.assertEqual([size for group in compare.groups_of(sizes) for size in group], sizes)
        self.assertEqual((sizes[0], sizes[-1]), (4, 128 << 20))


class Refusals(unittest.TestCase):
    def test_wrong_elements(self):
        self.assertEqual(peers.parse_lines("noise\n64,1.5,0\n128,2.5,0\n"), {64: 1.5, 128: 2.5})
        with self.assertRaisesRegex(peers.Failure, "3 wrong elements at 64 bytes"):
            peers.parse_lines("64,1.5,3\n")

    def test_missing_sizes(self):
        class Forgetful(peers.Peer):
            def command(self, transport, ranks, collective):
                return ["echo"]

        with self.assertRaisesRegex(peers.Failure, "sizes missing"):
            Forgetful("x", "1", ("shm",)).measure("shm", 2, "all_reduce", [64])

    def test_failing_programs(self):
        with self.assertRaisesRegex(peers.Failure, "status 3"):
            peers.run_command(["sh", "-c", "exit 3"])

    def test_hocket_that_is_not_built(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()) as text:
            sys.argv = ["compare.py", "--build", folder]
            self.assertEqual(compare.main(), 2)
        self.assertIn("build Hocket first", text.getvalue())

    def test_a_plot_without_matplotlib_before_anything_is_measured(self):
        with unittest.mock.patch.dict(sys.modules, matplotlib=None), contextlib.redirect_stderr(io.StringIO()) as text:
            with self.assertRaisesRegex(SystemExit, "2"):
                compare.parse_options(["--plot", "times.png"])
        self.assertIn("error: --plot: matplotlib is missing in", text.getvalue())

    def test_ucc_where_an_open_mpi_has_it(self):
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            (place / "bin").mkdir()
            for name, does in (("mpirun", "echo 'mpirun (Open MPI) 5.0.9'"), ("mpicc", ":"), ("ompi_info", "echo 'MCA coll: ucc (MCA v2.1.0)'")):
                (place / "bin" / name).write_text(f"#!/bin/sh\n{does}\n", encoding="utf-8")
                (place / "bin" / name).chmod(0o755)
            ucc = peers.find_ucc(place, place)
            command = ucc.command("tcp", 2, "all_reduce")
            self.assertEqual((ucc.name, ucc.version), ("UCC", "UCC in Open MPI 5.0.9"))
            self.assertEqual(command[:8], [place / "bin" / "mpirun", "--mca", "coll_ucc_enable", "1", "--mca", "coll_ucc_priority", "100", "-x"])
            self.assertIn("self,tcp", command)
            (place / "bin" / "ompi_info").write_text("#!/bin/sh\necho 'MCA coll: tuned'\n", encoding="utf-8")
            with self.assertRaisesRegex(peers.Failure, "UCC: Open MPI 5.0.9 was built without it"):
                peers.find_ucc(place, place)

    def test_a_python_without_torch_is_named(self):
        with self.assertRaisesRegex(peers.Failure, "/bin/false.*pip install torch=="):
            peers.find_gloo("/bin/false")


if __name__ == "__main__":
    unittest.main()
