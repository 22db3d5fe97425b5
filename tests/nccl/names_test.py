#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""names_test.py LIBRARY NAMES: the library exports the names of NCCL 2.32, each also with a p before it, and no other."""
import subprocess
import sys
import unittest

LIBRARY, NAMES = "", ""


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exported():
    """Kinds of symbols by name."""
    lines = (line.split() for line in output("nm", "-D", "--defined-only", LIBRARY).splitlines())
    return {words[-1]: words[-2] for words in lines}


class NamesTest(unittest.TestCase):
    def test_all_names_are_there_and_no_other(self):
        with open(NAMES, encoding="utf-8") as names:
            wanted = set(names.read().split())
        self.assertEqual(96, len(wanted))
        self.assertEqual(wanted | {"p" + name for name in wanted}, set(exported()))

    def test_profilers_can_stand_before_them(self):
        for name, kind in exported().items():
            self.assertEqual("T" if name.startswith("p") else "W", kind, name)

    def test_has_the_name_that_programs_ask_for(self):
        self.assertIn("[libnccl.so.2]", output("readelf", "-d", LIBRARY))


if __name__ == "__main__":
    NAMES, LIBRARY = sys.argv.pop(), sys.argv.pop()
    unittest.main()
