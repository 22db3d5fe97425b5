# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Draws what perf/codecs.sh has printed: speed-up over size, a panel for each link. Needs matplotlib.

perf/codecs.sh BUILD "1gbit 10gbit" "64K 512K 4M 32M" | perf/codecs_plot.py FILE.svg
"""
import collections
import sys

try:
    import matplotlib
except ImportError:
    sys.exit(f"codecs_plot.py: matplotlib is missing in {sys.executable}: pip install matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot  # pylint: disable=wrong-import-position

UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def size_of(word):
    return int(word[:-1]) * UNITS[word[-1]] if word[-1] in UNITS else int(word)


def read(lines):
    """{link: {codec: [(bytes, speed-up)]}}, in the order of the lines; heads are passed over."""
    links = collections.defaultdict(lambda: collections.defaultdict(list))
    for line in lines:
        words = line.split()
        if len(words) > 4 and words[0] != "link":
            links[words[0]][words[2]].append((size_of(words[1]), float(words[4])))
    return links


def draw(links, path):
    figure, panels = pyplot.subplots(1, len(links), figsize=(4 * len(links), 3.6), sharey=True, squeeze=False)
    for panel, (link, codecs) in zip(panels[0], links.items()):
        for codec, points in codecs.items():
            panel.plot(*zip(*points), marker="o", label=codec)
        panel.axhline(1, color="grey", linewidth=0.8)
        panel.set(title=link, xlabel="bytes", xscale="log", yscale="log")
    panels[0][0].set_ylabel("times as fast as without a codec")
    panels[0][-1].legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    links = read(sys.stdin)
    if not links:
        sys.exit("codecs_plot.py: no line of perf/codecs.sh on the standard input")
    draw(links, sys.argv[1])


if __name__ == "__main__":
    main()
