#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""How the compiled half of the backend comes to be: made once, by whoever comes first; what is missing is named."""
import multiprocessing
import os
import pathlib
import sysconfig
import tempfile
import time
import unittest
import unittest.mock

from hocket.distributed import _plugin


class Compiling(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = pathlib.Path(place.name)

    def fails(self, why, environment, sources=()):
        target = self.folder / "made.so"
        with unittest.mock.patch.dict(os.environ, environment), self.assertRaisesRegex(ImportError, why):
            _plugin.compile_module(target, sources, "/nowhere.so")
        self.assertEqual([entry.name for entry in self.folder.iterdir() if entry.name.startswith("build-")], [])

    def test_no_compiler(self):
        self.fails(r"no C\+\+ compiler 'no-such-compiler': install one .*g\+\+\), or name it in CXX", {"CXX": "no-such-compiler -v"})

    def test_no_headers_of_python(self):
        with unittest.mock.patch.object(sysconfig, "get_paths", lambda: {"include": "/nowhere"}):
            self.fails("no Python.h in /nowhere: install .*python3-dev", {})

    def test_what_the_compiler_says(self):
        source = self.folder / "wrong.cc"
        source.write_text("#error the cat was here\n", encoding="utf-8")
        self.fails("cannot be built: (.|\n)*the cat was here", {}, [source])

    def test_one_standard_library(self):
        """Torch's, though the compiler would bring its own."""
        import torch  # pylint: disable=unused-import
        source, target = self.folder / "stream.cc", self.folder / "made.so"
        source.write_text("#include <sstream>\nlong f(long n) { std::ostringstream s; s << n; return s.str().size(); }\n", encoding="utf-8")
        with unittest.mock.patch.dict(os.environ, {"CXX": "c++ -static-libstdc++"}):
            _plugin.compile_module(target, [source], "-lc")
        self.assertIn(b"libstdc++.so.6", target.read_bytes())

    def test_no_place(self):
        (self.folder / "file").touch()
        with unittest.mock.patch.dict(os.environ, {"XDG_CACHE_HOME": str(self.folder / "file")}):
            with self.assertRaisesRegex(ImportError, "cannot be kept in .*Not a directory.*XDG_CACHE_HOME"):
                _plugin.cached("made", lambda target: None)

    def test_no_place_in_the_package(self):
        include = _plugin._include()
        with (unittest.mock.patch.object(_plugin, "_HERE", self.folder / "nowhere"),
              unittest.mock.patch.object(_plugin, "_include", lambda: include),
              unittest.mock.patch.object(_plugin, "file_name", lambda: "made.so")):
            with self.assertRaisesRegex(ImportError, "cannot be put into .*nowhere .No such file.*in their cache"):
                _plugin.build_beside()

    def test_made_once(self):
        made = self.folder / "how often"

        def make(target):
            with open(made, "a", encoding="ascii") as log:
                log.write("x")
            time.sleep(0.2)  # the others come meanwhile
            target.touch()

        def rank():
            os._exit(0 if _plugin.cached("made", make).exists() else 1)

        with unittest.mock.patch.dict(os.environ, {"XDG_CACHE_HOME": str(self.folder)}):
            ranks = [multiprocessing.get_context("fork").Process(target=rank) for _ in range(8)]
            for each in ranks:
                each.start()
            for each in ranks:
                each.join()
        self.assertEqual([each.exitcode for each in ranks], [0] * 8)
        self.assertEqual(made.read_text(encoding="ascii"), "x")


if __name__ == "__main__":
    unittest.main(verbosity=2)
