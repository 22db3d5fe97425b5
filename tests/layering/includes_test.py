#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Sources name what they use of the headers that are compiled once for all of them (cmake/rooms.cmake), where no compiler
misses one: each includes it, or a header of ours that does.

includes_test.py SOURCE_FOLDER looks at the sources. The rule is also shown planted offences that it must find.
"""
import pathlib
import re
import sys
import tempfile
import unittest

import layering_test
from layering_test import find_header, includes_of, sources, without_comments

ROOT = layering_test.ROOT

# A header, and what is used of it.
USES = {
    "algorithm": r"std::(min|max|minmax|clamp|sort|stable_sort|nth_element|partial_sort|(find|count|remove|replace)_if|(any|all|none)_of|copy_n|fill|fill_n|"
                 r"reverse|rotate|unique|lower_bound|upper_bound|equal|mismatch|transform|generate|m(ax|in)_element|set_difference|shuffle)\b|"
                 r"std::ranges::(sort|stable_sort|find|find_if|any_of|all_of|none_of|copy|fill|count|count_if|m(ax|in)|m(ax|in)_element|equal|reverse|transform|"
                 r"for_each|replace|contains|unique|includes|lower_bound|upper_bound|is_sorted|adjacent_find|search|set_\w+)\b",
    "array": r"std::(array|to_array)\b",
    "atomic": r"std::(atomic\w*|memory_order\w*)\b",
    "bit": r"std::(bit_\w+|popcount|count[lr]_\w+|has_single_bit|endian)\b",
    "charconv": r"std::(from_chars|to_chars)\b",
    "chrono": r"std::chrono\b",
    "cmath": r"std::(sqrt|log2?|exp2?|ldexp|frexp|isnan|isinf|isfinite|l?lround|nearbyint|ceil|floor|pow|fma|hypot|scalbn|nextafter|round)\b",
    "condition_variable": r"std::condition_variable\b",
    "cstdint": r"\b(std::)?u?int(8|16|32|64)_t\b",
    "cstdlib": r"std::(abort|exit|getenv|strto\w+|malloc|free|system|abs|div)\b",
    "cstring": r"std::(mem(cpy|cmp|set|move|chr)|str(len|cmp|ncmp|chr|error))\b",
    "deque": r"std::deque\b",
    "fmt/format.h": r"\bfmt::\w+",
    "functional": r"std::(function|hash|less|greater|plus|ref|cref|invoke)\b",
    "limits": r"std::numeric_limits\b",
    "map": r"std::(multi)?map\b",
    "memory": r"std::((unique|shared|weak)_ptr|make_unique|make_shared|enable_shared_from_this)\b",
    "mutex": r"std::(mutex|recursive_mutex|lock_guard|unique_lock|scoped_lock|once_flag|call_once)\b",
    "numeric": r"std::(accumulate|iota|gcd|lcm|reduce|exclusive_scan|partial_sum|midpoint)\b",
    "optional": r"std::(optional|nullopt|make_optional)\b",
    "set": r"std::(multi)?set\b",
    "span": r"std::(span|as_bytes|as_writable_bytes)\b",
    "string": r"std::(string|to_string|stoi|stoul|stoull)\b",
    "string_view": r"std::string_view\b",
    "thread": r"std::(thread|jthread|this_thread)\b",
    "tuple": r"std::(tuple|tie|make_tuple|apply|forward_as_tuple)\b",
    "unordered_map": r"std::unordered_map\b",
    "utility": r"std::(move|forward|exchange|pair|swap|make_pair|as_const|cmp_\w+|in_range)\b",
    "variant": r"std::(variant|visit|holds_alternative|monostate)\b",
    "vector": r"std::vector\b",
}


def precompiled():
    text = (ROOT / "cmake/rooms.cmake").read_text(encoding="utf-8")
    return re.findall(r"<([^>]+)>", re.search(r"set\(hocket_common_headers([^)]*)\)", text)[1])


def included(root, path, seen):
    """The headers of others that a source includes, also by way of ours."""
    found = set()
    for include in includes_of(path):
        header = find_header(root, include, path.parent)
        if header is None:
            found.add(include)
        elif header not in seen:
            seen.add(header)
            found |= included(root, header, seen)
    return found


def missing(root):
    found = []
    for _, path in sources(root):
        if path.suffix not in (".cc", ".h"):
            continue
        code = re.sub(r'"(\\.|[^"\\\n])*"', '""', without_comments(path.read_text(encoding="utf-8")))
        has = included(root, path, set())
        for header, uses in USES.items():
            used = re.search(uses, code)
            if used and header not in has and not (header == "cstdint" and "stdint.h" in has):
                found.append(f"{path.relative_to(root).as_posix()} uses {used[0]} and does not include <{header}>")
    return found


class IncludesTest(unittest.TestCase):
    maxDiff = None

    def test_sources_include_what_they_use(self):
        self.assertEqual([], missing(ROOT))

    def test_every_precompiled_header_is_known(self):
        self.assertLessEqual(set(precompiled()), set(USES))


class PlantedTest(unittest.TestCase):
    """The rule finds what it is for."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def plant(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def test_a_missing_include_is_found(self):
        self.plant("src/base/a.cc", "#include <string>\nstd::vector<int> v;\n")
        self.assertEqual(["src/base/a.cc uses std::vector and does not include <vector>"], missing(self.root))

    def test_one_by_way_of_a_header_of_ours_counts(self):
        self.plant("src/base/b.h", "#include <vector>\n")
        self.plant("src/base/a.h", '#include "base/b.h"\n#include "base/a.h"\n')
        self.plant("src/base/a.cc", '#include "base/a.h"\nstd::vector<int> v;\n')
        self.assertEqual([], missing(self.root))

    def test_comments_and_texts_use_nothing(self):
        self.plant("src/base/a.cc", '// std::vector\nconst char* text = "std::map";\n')
        self.assertEqual([], missing(self.root))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        ROOT = pathlib.Path(sys.argv.pop(1))
    unittest.main()
