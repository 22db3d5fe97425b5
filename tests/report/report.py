#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Counts what the tests of one or more build folders did and ends with the line `N passed, N failed, N skipped`.

Reads reports/ctest.xml (JUnit, by ctest) and, for the GoogleTest programs, reports/NAME.xml with their single cases.
Exits with 1 when something failed or nothing ran. Skipped cases are named with their reason.
"""
import argparse
import datetime
import os
import pathlib
import platform
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field


@dataclass
class Tally:
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # "name: reason"

    def add(self, other: "Tally") -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def line(self) -> str:
        return f"{self.passed} passed, {len(self.failed)} failed, {len(self.skipped)} skipped"


def parse(path: pathlib.Path):
    """The root element, or None for a file that is missing or cut off (its program died)."""
    try:
        return ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return None


def tally_cases(program: str, root) -> Tally:
    """The cases of one GoogleTest program."""
    tally = Tally()
    for case in root.iter("testcase"):
        name = f"{program}: {case.get('classname')}.{case.get('name')}"
        skipped = case.find("skipped")
        if case.find("failure") is not None:
            tally.failed.append(name)
        elif skipped is not None:
            tally.skipped.append(f"{name}: {reason_of(skipped)}")
        elif case.get("status") == "run":
            tally.passed += 1
        else:
            tally.skipped.append(f"{name}: disabled")
    return tally


def reason_of(skipped) -> str:
    """GoogleTest puts file and line before the message."""
    lines = (skipped.get("message") or skipped.text or "").strip().splitlines()
    return lines[-1] if lines else "no reason given"


def tally_program(case, reports: pathlib.Path) -> Tally:
    """One entry of ctest: its own verdict, refined by the cases where it is a GoogleTest program."""
    name = case.get("name")
    skipped = case.find("skipped")
    if skipped is not None and "SKIP_" in (skipped.get("message") or ""):
        return Tally(skipped=[f"{name}: {last_line(case)}"])
    root = parse(reports / f"{name}.xml")
    tally = tally_cases(name, root) if root is not None else Tally()
    if case.get("status") != "run":
        if not tally.failed:  # it died, ran out of time, leaked, or was never started
            tally.failed.append(name)
    elif root is None:
        tally.passed += 1
    return tally


def last_line(case) -> str:
    lines = (case.findtext("system-out") or "").strip().splitlines()
    return lines[-1] if lines else "skipped"


def tally_folder(folder: pathlib.Path) -> Tally:
    reports = folder / "reports"
    root = parse(reports / "ctest.xml")
    tally = Tally()
    if root is None or root.find("testcase") is None:
        tally.failed.append(f"no test ran in {folder}")
        return tally
    for case in root.iter("testcase"):
        tally.add(tally_program(case, reports))
    return tally


SOAK_HEAD = """# What the last soak runs found

Written by `./dev soak`, which runs what is too long for `./dev test`: the full grid, large numbers of ranks, thousands of
faults, launchers, PyTorch. One line for the last run of each; `./dev soak REGEX` runs some again.

| test | date | commit | minutes | result |
|---|---|---|---|---|
"""


def soak_page(before: str, folder: pathlib.Path) -> str:
    """The page with a new line for each test that has run in this folder; the other lines stay."""
    rows = dict(re.findall(r"^\| (\w\S*) (\| \d{4}-.*\|)$", before, re.MULTILINE))
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    root = parse(folder / "reports/ctest.xml")
    for case in root.iter("testcase") if root is not None else []:
        tally = tally_program(case, folder / "reports")
        result = "; ".join([tally.line(), *tally.failed, *tally.skipped]).replace("|", "/")
        minutes = float(case.get("time") or 0) / 60
        rows[case.get("name")] = (f"| {datetime.date.today().isoformat()} | {commit or 'unknown'} | {minutes:.1f} "
                                  f"| {result} |")
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, {platform.machine()}"
    return SOAK_HEAD + "".join(f"| {name} {rows[name]}\n" for name in sorted(rows)) + f"\nThe last machine: {machine}.\n"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folders", nargs="+", type=pathlib.Path)
    arguments.add_argument("--soak", type=pathlib.Path, help="also note the results of the folder on this page")
    options = arguments.parse_args()

    total = Tally()
    for folder in options.folders:
        tally = tally_folder(folder)
        print(f"{folder}: {tally.line()}")
        total.add(tally)
    for name in total.skipped:
        print(f"skipped: {name}")
    for name in total.failed:
        print(f"FAILED: {name}")
    if options.soak:
        before = options.soak.read_text(encoding="utf-8") if options.soak.exists() else ""
        options.soak.write_text(soak_page(before, options.folders[0]), encoding="utf-8")
    print(total.line())
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
