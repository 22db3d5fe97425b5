#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""symbols_test.py LIBRARY HEADERS: the library exports exactly the functions of the headers in that folder, and has a SONAME."""
import pathlib
import re
import subprocess
import sys
import unittest

LIBRARY, HEADERS = "", ""


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exported(nm_output):
    """Names from `nm -D --defined-only`, without the version node itself."""
    names = [line.split()[-1] for line in nm_output.splitlines()]
    return {name for name in names if not re.fullmatch(r"HOCKET_\d+", name.split("@")[0])}


def foreign(names):
    """Exports that are not ours to export, or that carry no version."""
    return sorted(name for name in names if not re.fullmatch(r"hocket[A-Z]\w*@@HOCKET_0", name))


def declared(header):
    return set(re.findall(r"^HOCKET_API [^;]*?\b(hocket\w+)\(", header, re.M))


class SymbolsTest(unittest.TestCase):
    def test_exports_nothing_but_hocket(self):
        self.assertEqual([], foreign(exported(output("nm", "-D", "--defined-only", LIBRARY))))

    def test_exports_what_the_headers_declare(self):
        names = {name.split("@")[0] for name in exported(output("nm", "-D", "--defined-only", LIBRARY))}
        headers = [path.read_text(encoding="utf-8") for path in pathlib.Path(HEADERS).glob("*.h")]
        self.assertEqual(set().union(*map(declared, headers)), names)

    def test_has_a_soname(self):
        self.assertIn("[libhocket.so.0]", output("readelf", "-d", LIBRARY))

    def test_carries_no_path_of_the_build(self):
        self.assertNotRegex(output("readelf", "-d", LIBRARY), "RPATH|RUNPATH")

    def test_finds_a_planted_export(self):
        planted = "0000000000001139 T hocketSend@@HOCKET_0\n0000000000001140 T _ZN6hocket4leakEv\n"
        self.assertEqual(["_ZN6hocket4leakEv"], foreign(exported(planted)))

    def test_reads_declarations_over_several_lines(self):
        self.assertEqual({"hocketSend"}, declared("HOCKET_API hocketResult_t hocketSend(const void* buffer,\n  int a);"))


if __name__ == "__main__":
    HEADERS, LIBRARY = sys.argv.pop(), sys.argv.pop()
    unittest.main()
