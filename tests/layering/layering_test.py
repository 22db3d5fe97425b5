#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Keeps the arrows between the rooms true (docs/architecture.md), and a few rules of the house.

layering_test.py SOURCE_FOLDER looks at the sources. Each rule is also shown a planted offence that it must find.
"""
import functools
import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUFFIXES = {".h", ".hpp", ".c", ".cc", ".cu", ".in"}

# A room and the rooms whose headers it may include, besides its own. "include" is the public C API.
ARROWS = {
    "include": set(),
    "src/base": set(),
    "src/cuda": {"src/base"},
    "kernels": {"src/base"},
    "topology": {"src/base"},
    "transports": {"src/base"},
    "src/codec": {"src/base", "kernels"},
    "src/plan": {"src/base"},
    "src/prove": {"src/base", "src/plan", "topology", "src/codec"},
    "src/simulate": {"src/base", "src/plan", "topology", "src/codec"},
    "src/choose": {"src/base", "src/plan", "topology", "src/codec"},
    "src/observe": {"src/base"},
    "src/execute": {"src/base", "src/plan", "transports", "src/codec", "kernels"},
    "src/comm": {"src/base", "src/plan", "transports", "src/codec", "kernels", "topology", "src/prove", "src/choose",
                 "src/execute", "src/observe", "src/cuda"},
    "src/api": {"include", "src/base", "src/comm", "src/cuda", "src/choose"},  # choose: for the names of algorithms
    "src/nccl": {"include", "src/cuda"},
    "perf": {"include"},
    "tool": {"include", "src/base", "src/plan", "topology", "src/codec", "src/prove", "src/simulate", "src/choose",
             "src/observe"},
    "examples": {"include"},
}
# What measures a room or the machine looks into the room.
FREE = re.compile(r"perf/(\w+_bench|latency_probe)\.(cc|h)")
REGISTRY = "transports/registry.cc"


def sources(root):
    for room in ARROWS:
        for path in sorted((root / room).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                yield room, path


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


@functools.cache
def includes_of(path):
    return re.findall(r'^\s*#\s*include\s+["<]([^">]+)[">]', path.read_text(encoding="utf-8"), re.M)


@functools.cache
def find_header(root, include, folder):
    """The header of ours that an include in a source of that folder leads to; None for a header of somebody else."""
    candidates = [place / include for place in (folder, root, root / "src", root / "include")]
    return next((header.resolve() for header in candidates if header.is_file()), None)


def find_room(root, header):
    relative = header.relative_to(root.resolve()).as_posix()
    return next((room for room in ARROWS if relative.startswith(room + "/")), None)


def wrong_includes(root):
    """Includes against the arrows."""
    found = []
    for room, path in sources(root):
        relative = path.relative_to(root).as_posix()
        for include in includes_of(path):
            header = find_header(root, include, path.parent)
            target = header and find_room(root, header)
            if target and target not in ARROWS[room] | {room} and not FREE.fullmatch(relative):
                found.append(f"{relative} includes {include}: {room} may not know {target}")
    return found


def transport_names(root):
    return sorted(path.name for path in (root / "transports").iterdir() if path.is_dir())


def is_named(name, code):
    """As an include, a namespace, a string or the beginning of an identifier; `local` is also an ordinary word."""
    camel = "".join(part.capitalize() for part in name.split("_"))
    patterns = [rf'transports/{name}/', rf'\b{name}::', rf'namespace {name}\b', rf'"{name}"',
                rf'\b{camel}(Transport|Sender|Receiver|Pipe)\b']
    if name != "local":
        patterns.append(rf'(?<![\w./<]){name}\b(?!\.h)')
    return any(re.search(pattern, code) for pattern in patterns)


def leaked_transport_names(root):
    """A transport is named in its own folder and in the registry, nowhere else."""
    found = []
    for name in transport_names(root):
        own = f"transports/{name}/"
        for _, path in sources(root):
            relative = path.relative_to(root).as_posix()
            if relative.startswith(own) or relative == REGISTRY or FREE.fullmatch(relative):
                continue
            if is_named(name, without_comments(path.read_text(encoding="utf-8"))):
                found.append(f"{relative} names the transport {name}")
    return found


def wrong_heads(root):
    """Every source begins with its licence; nothing is left for later."""
    found = []
    for _, path in sources(root):
        text = path.read_text(encoding="utf-8")
        if "SPDX-License-Identifier: Apache-2.0" not in text[:200] or "Copyright The Hocket authors" not in text[:300]:
            found.append(f"{path.relative_to(root)} does not begin with the licence and the authors")
        if re.search(r"\b(TODO|FIXME|XXX)\b", text):
            found.append(f"{path.relative_to(root)} leaves something to do")
    return found


class HouseTest(unittest.TestCase):
    def test_includes_follow_the_arrows(self):
        self.assertEqual([], wrong_includes(ROOT))

    def test_transports_are_named_in_their_folder_only(self):
        self.assertEqual([], leaked_transport_names(ROOT))

    def test_sources_begin_with_their_licence(self):
        self.assertEqual([], wrong_heads(ROOT))

    def test_every_room_is_looked_at(self):
        rooms = {room for room, _ in sources(ROOT)}
        self.assertLessEqual({"include", "src/base", "src/plan", "src/comm", "src/api", "transports"}, rooms)


class PlantedTest(unittest.TestCase):
    """The rules find what they are for."""

    HEAD = "// SPDX-License-Identifier: Apache-2.0\n// Copyright The Hocket authors\n"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.plant("transports/carrier_pigeon/pigeon.h", "")
        self.plant("src/plan/plan.h", "")
        self.plant("src/base/status.h", "")

    def plant(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.HEAD + text, encoding="utf-8")

    def test_good_includes_pass(self):
        self.plant("src/execute/a.cc", '#include "plan/plan.h"\n#include "base/status.h"\n#include <vector>\n')
        self.assertEqual([], wrong_includes(self.root))

    def test_an_arrow_upward_is_found(self):
        self.plant("src/base/a.cc", '#include "plan/plan.h"\n')
        self.assertEqual(["src/base/a.cc includes plan/plan.h: src/base may not know src/plan"],
                         wrong_includes(self.root))

    def test_a_plan_that_knows_a_transport_is_found(self):
        self.plant("src/plan/a.cc", '#include "../../transports/carrier_pigeon/pigeon.h"\n')
        self.assertEqual(1, len(wrong_includes(self.root)))

    def test_a_leaked_transport_name_is_found(self):
        for code in ('auto t = find("carrier_pigeon");', "CarrierPigeonSender s;", "carrier_pigeon::open();"):
            self.plant("src/comm/a.cc", code)
            self.assertEqual(["src/comm/a.cc names the transport carrier_pigeon"], leaked_transport_names(self.root))

    def test_own_folder_registry_and_comments_may_name_it(self):
        self.plant("transports/carrier_pigeon/b.cc", "CarrierPigeonSender s;")
        self.plant(REGISTRY, "carrier_pigeon::transport()")
        self.plant("src/comm/a.cc", "// not even a carrier_pigeon\n")
        self.assertEqual([], leaked_transport_names(self.root))

    def test_a_missing_licence_and_a_leftover_are_found(self):
        (self.root / "src/base/bare.cc").write_text("int x;\n", encoding="utf-8")
        self.plant("src/base/later.cc", "// TO" "DO: everything\n")
        self.assertEqual(2, len(wrong_heads(self.root)))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        ROOT = pathlib.Path(sys.argv.pop(1))
    unittest.main()
