#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""tool_test.py PROGRAM: the program `hocket` as a user types it."""
import subprocess
import sys
import unittest

PROGRAM = "hocket"


def hocket(*words):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=60, check=False)


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

    def test_topo_shows_this_machine(self):
        answer = hocket("topo")
        self.assertEqual(0, answer.returncode, answer.stderr)
        self.assertRegex(answer.stdout, r"(?m)^processor .*cpus \d")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PROGRAM = sys.argv.pop(1)
    unittest.main()
