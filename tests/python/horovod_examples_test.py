#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""The Horovod examples as users start them: hocket run, torchrun, mpirun and srun. TOOL names the program."""
import importlib.util
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "horovod"
PROGRAM = os.environ.get("TOOL", "hocket")
DIGITS = [sys.executable, "-m", "hocket.horovod_alias", str(EXAMPLES / "digits.py"), "--epochs", "4"]
SLURM = ROOT / "tests" / "examples" / "slurm.sh"
TORCHRUN = pathlib.Path(sys.executable).parent / "torchrun"


def output(*command, **environment):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=540, check=False,
                          env={**os.environ, **environment})
    if done.returncode != 0:
        raise AssertionError(f"{command}: status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def run(ranks, *words, options=()):
    return output(PROGRAM, "run", "-n", ranks, *options, *words)


@unittest.skipUnless(importlib.util.find_spec("sklearn"), "scikit-learn is not installed")
class Digits(unittest.TestCase):
    def check(self, text, ranks, least=0.85):
        found = re.findall(r"rank (\d) of (\d): accuracy ([\d.]+)", text)
        self.assertEqual(sorted(rank for rank, _, _ in found), [str(rank) for rank in range(ranks)], text)
        self.assertEqual(len({accuracy for _, _, accuracy in found}), 1, "all ranks agree")
        self.assertGreater(float(found[0][2]), least)
        return found[0][2]

    def test_hocket_run(self):
        self.check(run(2, *DIGITS), 2)
        self.check(run(4, *DIGITS), 4)

    def test_options(self):
        for options in (["--fp16-allreduce"], ["--gradient-predivide-factor", "2"], ["--use-adasum"]):
            self.check(run(2, *DIGITS, *options), 2)

    def test_the_same_under_torchrun(self):
        script = [TORCHRUN, "--nproc-per-node", 2, "--no-python", *DIGITS]
        self.assertEqual(self.check(output(*script), 2), self.check(run(2, *DIGITS), 2))

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed")
    def test_the_same_under_mpirun(self):
        as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        self.check(output("mpirun", "--oversubscribe", "-n", 2, *DIGITS, **as_root), 2)

    @unittest.skipUnless(shutil.which("mpiexec.hydra"), "MPICH is not installed")
    def test_the_same_under_hydra(self):
        self.check(output("mpiexec.hydra", "-n", 2, *DIGITS), 2)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("slurmctld") and shutil.which("munged"), "Slurm is not installed")
    def test_the_same_under_srun(self):
        self.check(output(SLURM, "srun", "--nodes", 2, "--ntasks", 2, "--overcommit", *DIGITS), 2)


class Others(unittest.TestCase):
    def test_synthetic_benchmark(self):
        for options in ([], ["--codec", "int8"]):
            text = run(2, sys.executable, EXAMPLES / "synthetic_benchmark.py", "--iterations", 2, "--batches", 2, *options)
            self.assertRegex(text, r"images a second on a rank: [\d.]+ .* on 2 ranks: [\d.]+")

    def test_elastic_with_a_killed_worker(self):
        text = run(3, sys.executable, EXAMPLES / "elastic.py", "--steps", 400, "--die", "1@12", options=["--min", "2"])
        last = re.findall(r"rank \d of \d: (\d+) steps, loss ([\d.]+), slope ([\d.]+)", text)
        self.assertGreaterEqual(len(last), 2, text)
        for steps, loss, slope in last:
            self.assertEqual((steps, loss), ("400", "0.000000"))
            self.assertAlmostEqual(float(slope), 3, 3)
        self.assertIn("now 2 ranks, from step 10", text)

    def test_elastic_with_codecs(self):
        def slopes(steps, *options):
            text = run(3, sys.executable, EXAMPLES / "elastic.py", "--steps", steps, "--die", "1@12", *options,
                       options=["--min", "2", "--restarts", "0"])
            found = re.findall(rf"rank \d of 2: {steps} steps, loss [\d.]+, slope ([\d.]+)", text)
            self.assertEqual((len(found), len(set(found))), (2, 1), text)
            return float(found[0])

        plain = slopes(20)
        for codec in ("topk:ratio=0.5", "sign:feedback=both"):
            with self.subTest(codec):
                self.assertNotEqual(slopes(20, "--codec", codec), plain, "the codec changed nothing on the way")
                self.assertAlmostEqual(slopes(300, "--codec", codec), 3, 1)

    def test_rank_0_is_killed(self):
        text = run(3, sys.executable, EXAMPLES / "elastic.py", "--steps", 30, "--die", "0@12",
                   options=["--min", "2", "--restarts", "0"])
        self.assertEqual(sorted(re.findall(r"rank \d of 2: 30 steps", text)), [f"rank {r} of 2: 30 steps" for r in (0, 1)])
        self.assertIn("ranks at a step [2, 3]", text)

    def test_those_that_do_not_start_torch_find_each_other(self):
        code = "import hocket; c = hocket.Communicator.from_environment(); c.barrier(); print('met', c.rank, c.size)"
        self.assertEqual(sorted(run(3, sys.executable, "-c", code).splitlines()), [f"[{r}] met {r} 3" for r in range(3)])

    def test_torch_distributed_works_under_hocket_run(self):
        code = ("import torch, torch.distributed as d; d.init_process_group('gloo'); x = torch.ones(1); d.all_reduce(x);"
                "print('sum', x.item()); d.destroy_process_group()")
        self.assertEqual(sorted(run(2, sys.executable, "-c", code).splitlines()), ["[0] sum 2.0", "[1] sum 2.0"])


class FromWithinAProgram(unittest.TestCase):
    """horovod.run(), of which hocket.launch.run() is the other name."""

    BEGIN = "import os; from hocket.launch import run\nbase = 5\n"

    def started(self, code):
        path = f"{pathlib.Path(PROGRAM).parent}{os.pathsep}{os.environ['PATH']}"
        return subprocess.Popen([sys.executable, "-c", self.BEGIN + code], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env={**os.environ, "PATH": path})

    def run_program(self, code):
        with self.started(code) as program:
            return program.communicate(timeout=540)

    def test_results_come_in_the_order_of_ranks(self):
        said, told = self.run_program(
            "def add(more, factor=1):\n"
            "    import torch, hocket.torch as hvd\n"
            "    hvd.init()\n"
            "    return hvd.rank(), hvd.allreduce(torch.ones(1) * factor, op=hvd.Sum).item() + base + more\n"
            "print(run(add, (100,), {'factor': 2}, num_proc=3))\n")
        self.assertEqual(said, "[(0, 111.0), (1, 111.0), (2, 111.0)]\n", told)

    def test_under_horovods_name(self):
        said, told = self.run_program(
            "import hocket.horovod_alias, horovod\n"
            "def rank():\n"
            "    import horovod.torch as hvd\n"
            "    hvd.init()\n"
            "    return hvd.rank(), os.environ.get('HOCKET_INTERFACE')\n"
            "print(horovod.run(rank, np=2, hosts='localhost:2', use_gloo=True, verbose=2, network_interfaces=['lo']))\n")
        self.assertEqual(said, "[(0, 'lo'), (1, 'lo')]\n", told)

    def test_those_that_are_left_go_on(self):
        said, told = self.run_program(
            "def survive():\n"
            "    import hocket.torch as hvd\n"
            "    hvd.init()\n"
            "    @hvd.elastic.run\n"
            "    def train(state):\n"
            "        while state.step < 20:\n"
            "            if os.environ.get('HOCKET_RANK') == '1' and state.step == 7: os._exit(9)\n"
            "            hvd.barrier()\n"
            "            state.step += 1\n"
            "            state.commit()\n"
            "        return state.step, hvd.size()\n"
            "    return train(hvd.elastic.ObjectState(step=0))\n"
            "print(run(survive, num_proc=3, min_num_proc=2, reset_limit=0))\n")
        self.assertEqual(said, "[(20, 2), (20, 2)]\n", told)

    def test_what_a_rank_raises(self):
        _, told = self.run_program(
            "def fail():\n"
            "    import hocket\n"
            "    with hocket.Communicator.from_environment() as ranks:\n"
            "        if ranks.rank == 1: raise KeyError('lost')\n"
            "        ranks.barrier()\n"
            "def fail_slowly():\n"
            "    import time\n"
            "    try: fail()\n"
            "    except KeyError: time.sleep(0.3); raise\n"  # rank 0 has told by then
            "run(fail_slowly, num_proc=2)\n")
        self.assertIn("RuntimeError: hocket.launch.run: rank 1: KeyError: 'lost'", told)
        _, told = self.run_program("run(lambda: os.abort(), num_proc=2)")
        self.assertRegex(told, r"RuntimeError: hocket.launch.run: rank [01] ended with status 134")
        _, told = self.run_program(
            "def fail():\n"
            "    error = ValueError('bad \\udcff')\n"
            "    error.__notes__ = ['a note']\n"
            "    raise error\n"
            "run(fail)\n")
        self.assertIn("RuntimeError: hocket.launch.run: rank 0: ValueError: bad \\udcff\na note", told)

    def test_a_rank_that_is_killed_is_named(self):
        _, told = self.run_program(
            "def fail():\n"
            "    import signal, time\n"
            "    if os.environ['HOCKET_RANK'] == '1': os.kill(os.getpid(), signal.SIGKILL)\n"
            "    time.sleep(60)\n"
            "run(fail, num_proc=3)\n")
        self.assertIn("RuntimeError: hocket.launch.run: rank 1 ended with status 137", told)

    def test_a_rank_without_a_result_is_named(self):
        for end in ("os._exit(0)", "raise SystemExit(0)"):
            with self.subTest(end):
                _, told = self.run_program(
                    "def leave():\n"
                    f"    if os.environ['HOCKET_RANK'] == '1': {end}\n"
                    "    return int(os.environ['HOCKET_RANK'])\n"
                    "run(leave, num_proc=3)\n")
                self.assertIn("RuntimeError: hocket.launch.run: no result of rank 1: it ended, with status 0, before", told)
        _, told = self.run_program(
            "class Odd:\n"
            "    def __reduce__(self): return exec, (\"import os\\nif 'HOCKET_RANK' not in os.environ: 1 / 0\",)\n"
            "run(lambda: Odd(), num_proc=2)\n")
        self.assertIn("RuntimeError: hocket.launch.run: the result of rank 0 cannot be unpickled here: ZeroDivisionError", told)

    def test_what_was_printed_before_comes_first(self):
        said, told = self.run_program("print('before')\nrun(print, ('within',))\n")
        self.assertEqual(said, "before\n[0] within\n", told)

    def test_ranks_end_with_the_program(self):
        with self.started("def stay():\n    import time\n    print(os.getpid())\n    time.sleep(300)\nrun(stay)\n") as program:
            rank = int(program.stdout.readline().split()[1])
            program.terminate()
            program.wait(30)
        for _ in range(200):
            if not pathlib.Path(f"/proc/{rank}").exists():
                return
            time.sleep(0.1)
        os.kill(rank, signal.SIGKILL)
        self.fail("the rank goes on without the program")

    def test_refusals(self):
        for options, why in (("num_proc=0", "num_proc: 0"), ("np=2, max_np=1", "max_num_proc: 1 is less than num_proc, 2"),
                             ("num_proc=2.5", "num_proc: 2.5 is no whole number"), ("num_proc='2'", "num_proc: '2' is no"),
                             ("num_proc=None", "num_proc: None is no"),
                             ("num_proc=5000", "num_proc: 5000 is not between 1 and 1024"),
                             ("min_num_proc=0", "min_num_proc: 0 is not between 1 and 1"),
                             ("num_proc=2, min_num_proc=3", "min_num_proc: 3 is not between 1 and 2"),
                             ("reset_limit=1", "reset_limit: 1 needs min_num_proc"),
                             ("hosts=['localhost']", "hosts: ['localhost'] is"),
                             ("hostfile='hosts'", "hostfile: 'hosts'"),
                             ("host_discovery_script='find.sh'", "host_discovery_script: 'find.sh'"),
                             ("hosts='localhost:1,node7:1'", "hosts: 'node7:1' is")):
            _, told = self.run_program(f"run(print, {options})")
            self.assertIn(f"hocket._errors.InvalidArgument: {why}", told)


if __name__ == "__main__":
    unittest.main(verbosity=2)
