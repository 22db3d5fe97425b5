#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""one_arch.py LIBRARY ARCHITECTURE OUT: the library without its device code for other architectures than, say, 90.

What is left out is zeros, so that addresses stay and the file is small once it is compressed: NCCL's is 250 MB for seven
architectures, and 38 MB for one.
"""
import pathlib
import struct
import subprocess
import sys

MAGIC = 0xBA55ED50  # of a fat binary: u32, then u16 version, u16 bytes of this header, u64 bytes of what follows
CONTAINER, ENTRY, ARCHITECTURE = "<IHHQ", "<HHIQ", 28  # entry: kind, version, bytes of the header, of the code; the architecture's place


def sections(path):
    """Where fat binaries lie in the file."""
    listed = subprocess.run(["readelf", "-SW", path], check=True, capture_output=True, text=True).stdout
    for line in listed.splitlines():
        if "fatbin" in line and "PROGBITS" in line:
            fields = line.split("PROGBITS")[1].split()
            yield int(fields[1], 16), int(fields[2], 16)


def clear_others(data, begin, size, architecture):
    at, end = begin, begin + size
    while at + struct.calcsize(CONTAINER) <= end:
        magic, _, header, length = struct.unpack_from(CONTAINER, data, at)
        if magic != MAGIC:
            at += 8
            continue
        entry, at = at + header, at + header + length
        while entry < at:
            _, _, head, payload = struct.unpack_from(ENTRY, data, entry)
            if struct.unpack_from("<I", data, entry + ARCHITECTURE)[0] != architecture:
                data[entry + head:entry + head + payload] = bytes(payload)
            entry += head + payload


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    data = bytearray(pathlib.Path(sys.argv[1]).read_bytes())
    for begin, size in sections(sys.argv[1]):
        clear_others(data, begin, size, int(sys.argv[2]))
    pathlib.Path(sys.argv[3]).write_bytes(data)


if __name__ == "__main__":
    main()
