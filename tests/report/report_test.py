#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""A count that overlooks a failure is worse than none: every way in which a test can end is counted as what it is."""
import pathlib
import tempfile
import unittest

import report

GOOGLETEST = """<testsuites><testsuite>
  <testcase name="adds" status="run" classname="Sum"/>
  <testcase name="wraps" status="run" classname="Sum"><failure message="1 != 2"/></testcase>
  <testcase name="waits" status="run" classname="Sum"><skipped message="sum_test.cc:7&#10;no second host"/></testcase>
  <testcase name="later" status="notrun" classname="Sum"/>
</testsuite></testsuites>"""
PASSING = '<testsuites><testsuite><testcase name="adds" status="run" classname="Sum"/></testsuite></testsuites>'


class ReportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "reports").mkdir()

    def write(self, name, text):
        (self.folder / "reports" / f"{name}.xml").write_text(text, encoding="utf-8")

    def tally(self, *testcases):
        self.write("ctest", f"<testsuite>{''.join(testcases)}</testsuite>")
        return report.tally_folder(self.folder)

    def test_counts_the_cases_of_a_googletest_program(self):
        self.write("sum_test", GOOGLETEST)
        tally = self.tally('<testcase name="sum_test" status="fail"/>')
        self.assertEqual("1 passed, 1 failed, 2 skipped", tally.line())
        self.assertEqual(["sum_test: Sum.wraps"], tally.failed)
        self.assertEqual(["sum_test: Sum.waits: no second host", "sum_test: Sum.later: disabled"], tally.skipped)

    def test_counts_another_program_once(self):
        self.assertEqual("1 passed, 0 failed, 0 skipped", self.tally('<testcase name="x" status="run"/>').line())
        self.assertEqual("0 passed, 1 failed, 0 skipped", self.tally('<testcase name="x" status="fail"/>').line())

    def test_a_program_that_died_has_failed(self):
        self.assertEqual(["sum_test"], self.tally('<testcase name="sum_test" status="fail"/>').failed)
        self.write("sum_test", PASSING[:40])
        self.assertEqual(["sum_test"], self.tally('<testcase name="sum_test" status="fail"/>').failed)

    def test_a_program_that_fails_after_its_cases_have_passed_has_failed(self):
        self.write("sum_test", PASSING)
        tally = self.tally('<testcase name="sum_test" status="fail"/>')
        self.assertEqual("1 passed, 1 failed, 0 skipped", tally.line())

    def test_a_program_that_was_never_started_has_failed(self):
        case = '<testcase name="x" status="notrun"><skipped message="Unable to find executable"/></testcase>'
        self.assertEqual(["x"], self.tally(case).failed)

    def test_a_skipped_program_says_why(self):
        case = ('<testcase name="x" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>'
                "<system-out>dev: no tool</system-out></testcase>")
        self.assertEqual(["x: dev: no tool"], self.tally(case).skipped)

    def test_the_soak_page_keeps_what_did_not_run_again(self):
        before = report.SOAK_HEAD + "| grid | 2020-01-01 | abc | 9.0 | 1 failed; Grid.x |\n| sum_test | 2020-01-02 | abc | 1.0 | ? |\n"
        self.write("sum_test", GOOGLETEST)
        self.tally('<testcase name="sum_test" status="fail" time="120"/>')
        lines = report.soak_page(before, self.folder).splitlines()
        self.assertIn("| grid | 2020-01-01 | abc | 9.0 | 1 failed; Grid.x |", lines)
        line = next(line for line in lines if line.startswith("| sum_test |"))
        self.assertRegex(line, r"^\| sum_test \| 20[2-9]\d-.* \| 2\.0 \| 1 passed, 1 failed, 2 skipped; sum_test: Sum.wraps;")
        self.assertEqual(1, sum(line.startswith("| sum_test") for line in lines))

    def test_no_test_is_a_failure(self):
        self.assertEqual(1, len(report.tally_folder(self.folder).failed))
        self.assertEqual(1, len(self.tally().failed))


if __name__ == "__main__":
    unittest.main()
