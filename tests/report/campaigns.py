#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Campaigns that no session is long enough for: every parser under libFuzzer, many seeds of the simulator.

Goes on, for so many minutes, where the last session ended, with what is least far first, and keeps count on a page. What
fuzzing has learnt stays among the seeds of tests/fuzz: inputs that reach code which no other input reaches, and those that
broke something, for ever. A target that breaks is not run again before the next session, where its input comes first.
"""
import argparse
import contextlib
import datetime
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

HEAD = """# How far the long campaigns have come

Written by `./dev campaigns`, which goes on where the last session ended. Minutes are of processors, not of clocks; *found*
counts what broke, and its inputs lie among the seeds in `tests/fuzz/seeds`, which each later run tries first.

| campaign | done | of | found | last run | commit |
|---|---|---|---|---|---|
"""
ROW = re.compile(r"^\| (\w+) \| ([\d.]+) \| ([\d.]+) [\w ]+ \| (\d+) \| (\S+) \| (\S+) \|$", re.MULTILINE)
FUZZ_MINUTES = 30
SEEDS = 100_000
PIECE_SECONDS = 120
LONGEST_SECONDS = 600  # for one input: of clocks, and the machine may be busy
PIECE_SEEDS = 2000
LONGEST_INPUT = 4096  # that is kept


@dataclass
class Campaign:
    name: str
    wanted: float
    unit: str
    done: float = 0
    found: int = 0
    date: str = "never"
    commit: str = "-"

    def row(self):
        return (f"| {self.name} | {self.done:.1f} | {self.wanted} {self.unit} | {self.found} | {self.date} "
                f"| {self.commit} |\n")


class Fuzzing(Campaign):
    def __init__(self, program):
        super().__init__(program.name, FUZZ_MINUTES, "CPU minutes")
        self.program = program
        self.seeds = pathlib.Path("tests/fuzz/seeds") / self.name
        self.corpus = pathlib.Path("build/fuzz/corpus") / self.name
        self.corpus.mkdir(parents=True, exist_ok=True)

    def fuzz(self, *options):
        """(CPU minutes, whether nothing broke)"""
        log = pathlib.Path(f"build/logs/{self.name}.log")
        log.parent.mkdir(exist_ok=True)
        with log.open("w", encoding="utf-8") as output:
            process = subprocess.Popen([self.program, *options], stdout=output, stderr=output, stdin=subprocess.DEVNULL)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        return (used.ru_utime + used.ru_stime) / 60, process.returncode == 0

    def piece(self, seconds):
        artifacts = pathlib.Path("build/fuzz/found") / self.name
        artifacts.mkdir(parents=True, exist_ok=True)
        minutes, whole = self.fuzz(f"-max_total_time={min(seconds, PIECE_SECONDS)}", f"-timeout={LONGEST_SECONDS}",
                                   f"-report_slow_units={LONGEST_SECONDS}", "-rss_limit_mb=2048",
                                   f"-artifact_prefix={artifacts}/", self.corpus, self.seeds)
        self.done += minutes
        for artifact in artifacts.iterdir():
            self.found += not (self.seeds / artifact.name).exists()
            shutil.move(artifact, self.seeds / artifact.name)
        return whole

    def keep(self):
        """Seeds for code that they do not reach yet."""
        self.fuzz("-set_cover_merge=1", "-use_counters=0", f"-max_len={LONGEST_INPUT}", self.seeds, self.corpus)


class Simulating(Campaign):
    def __init__(self, program):
        super().__init__(program.name, SEEDS, "seeds")
        self.program = program

    def piece(self, _seconds):
        run = subprocess.run([self.program, "--gtest_filter=SimulatedMesh.SurvivorsOfACut*"], capture_output=True, text=True,
                             env=os.environ | {"SIMULATION_FIRST": str(int(self.done) + 1), "SIMULATION_SEEDS": str(PIECE_SEEDS)})
        if run.returncode == 0:
            self.done += PIECE_SEEDS
        else:
            self.found += 1
            print(run.stdout[-4000:], run.stderr[-4000:], sep="\n")
        return run.returncode == 0

    def keep(self):
        pass


class Ledger:
    def __init__(self, page, campaigns):
        self.page = page
        self.campaigns = campaigns
        self.lock = threading.Lock()
        self.commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
        self.others = {}  # campaigns that are not in this build
        known = {campaign.name: campaign for campaign in campaigns}
        for row in ROW.finditer(page.read_text(encoding="utf-8") if page.exists() else ""):
            name, done, _, found, date, commit = row.groups()
            if name not in known:
                self.others[name] = row.group(0) + "\n"
                continue
            campaign = known[name]
            campaign.done, campaign.found, campaign.date, campaign.commit = float(done), int(found), date, commit

    def note(self, campaign):
        with self.lock:
            campaign.date, campaign.commit = datetime.date.today().isoformat(), self.commit
            rows = self.others | {each.name: each.row() for each in self.campaigns}
            self.page.write_text(HEAD + "".join(rows[name] for name in sorted(rows)), encoding="utf-8")


def work(ledger, waiting, broken, until):
    """Piece after piece of what is least far."""
    while (left := until - time.monotonic()) > 1:
        with ledger.lock:
            if not waiting:
                return
            campaign = min(waiting, key=lambda each: each.done / each.wanted)
            waiting.remove(campaign)
        whole = campaign.piece(int(left))
        ledger.note(campaign)
        print(f"{campaign.name}: {campaign.done:.1f} of {campaign.wanted} {campaign.unit}"
              f"{'' if whole else ', BROKE'}", flush=True)
        with ledger.lock:
            if not whole:
                broken.append(campaign.name)
            elif campaign.done < campaign.wanted:
                waiting.append(campaign)


def yield_to_others():
    """Niceness counts only within a session where the kernel shares the processors among sessions first."""
    os.nice(19)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/self/autogroup").write_text("19", encoding="ascii")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--only", default="", help="names that this regular expression finds")
    parser.add_argument("--jobs", type=int, default=2, help="at the same time")
    parser.add_argument("--page", type=pathlib.Path, default=pathlib.Path("docs/campaigns.md"))
    options = parser.parse_args()
    yield_to_others()

    campaigns = [Fuzzing(program) for program in sorted(pathlib.Path("build/fuzz/tests/fuzz").glob("*_fuzzer"))]
    campaigns += [Simulating(program) for program in pathlib.Path("build/tests/comm").glob("simulated_mesh_test")]
    ledger = Ledger(options.page, campaigns)
    chosen = [each for each in campaigns if re.search(options.only, each.name) and each.done < each.wanted]
    waiting, broken = list(chosen), []
    until = time.monotonic() + options.minutes * 60
    workers = [threading.Thread(target=work, args=(ledger, waiting, broken, until)) for _ in range(options.jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for campaign in chosen:
        campaign.keep()
    for name in sorted(broken):
        print(f"BROKE: {name}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
