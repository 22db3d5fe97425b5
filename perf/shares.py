#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""How many instructions of a repeated all-reduce between 2 ranks the flight recorder takes, and the detection of calls that
do not match, under callgrind.

Counted by lines of source, also where the compiler has put them into other functions: those of the recorder's files and
of who calls it, and those that make or compare what messages carry of their call. Both are shares of what a call costs, and are given
in nanoseconds of a processor that ends 2 instructions in a cycle of 3 GHz.
"""
import argparse
import pathlib
import re

import instructions

ROOT = pathlib.Path(__file__).resolve().parents[1]
RECORDER = re.compile(r"src/(observe/flight|comm/call_log|comm/process_flight)\.(h|cc)$")
RECORDS = re.compile(r"\blog\.|call_log\(\)|\brecent\.kind\b")
MISMATCH = re.compile(r"uint64_t with\(|order\.history = |Envelope envelope\{|digest\(\) const|->digest == |count_one\(|\bcount_\.")
PER_NANOSECOND = 6


def lines(profile):
    """(file, line, instructions) of each line's own cost."""
    names, file, line, skip = {}, "", 0, False
    for text in profile.splitlines():
        named = re.match(r"(c?)f[lie]=\((\d+)\)(?: (.*))?", text)
        if named:
            name = names.setdefault(named[2], named[3] or "")
            file = file if named[1] else name
        elif text.startswith("calls="):
            skip = True  # the next line is the callee's cost
        elif cost := re.match(r"([+*-]?)(\d*) (\d+)$", text):
            sign, number, own = cost.groups()
            line = line if sign == "*" else int(number) if not sign else line + int(sign + number)
            if not skip:
                yield file, line, int(own)
            skip = False


def source(file, line, texts={}):
    if file not in texts:
        ours = re.search(r"(?:^|/)((?:src|transports|kernels)/.*)$", file)
        path = ROOT / ours[1] if ours else None
        texts[file] = path.read_text(encoding="utf-8").splitlines() if path and path.exists() else []
    return texts[file][line - 1] if 0 < line <= len(texts[file]) else ""


def costs(profile):
    """Instructions of (the recorder, the detection)."""
    recorder = mismatch = 0
    for file, line, own in lines(profile):
        if RECORDER.search(file) or RECORDS.search(source(file, line)):
            recorder += own
        elif MISMATCH.search(source(file, line)):
            mismatch += own
    return recorder, mismatch


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path, help="build/perf/repeat")
    parser.add_argument("--bytes", default="1024")
    options = parser.parse_args()
    whole, profile = instructions.instructions(options.program, options.bytes)
    for name, own in zip(("flight recorder", "detection of mismatches"), costs(profile)):
        each = own / (2 * instructions.CALLS)
        print(f"{name}, {options.bytes} bytes: {each:.0f} of {whole:.0f} instructions ({100 * each / whole:.1f} %), "
              f"{each / PER_NANOSECOND:.0f} ns")


if __name__ == "__main__":
    main()
