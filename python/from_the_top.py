# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Builds the package that ../pyproject.toml describes: its sources are all of the tree, and so are those of an sdist."""
import os

os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from scikit_build_core.build import *  # pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position
