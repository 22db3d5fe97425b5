#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""The Horovod examples as users start them: hocket run, torchrun, mpirun and srun. TOOL names the program."""
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
