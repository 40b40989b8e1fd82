#!/usr/bin/env python3
"""eval_texts.py [--lines] [FOLDER]: two novels of Jane Austen as text files, persuasion.txt and
emma.txt, for docs/accuracy.md; FOLDER is build/texts by default.

They come from Debian's package r-cran-janeaustenr (MIT; the novels are in the public domain), which
is downloaded by apt-get and unpacked, not installed. Each novel is there as an R vector of lines of
some 70 characters; here a paragraph is a line, as in most texts that models are trained on, unless
--lines leaves them as they are.
"""

from __future__ import annotations

import argparse
import re
import struct
import subprocess
import tempfile
import zlib
from pathlib import Path

PACKAGE = "r-cran-janeaustenr"
DATA = "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb"
NOVELS = ("persuasion", "emma")  # as their first lines say, in any case

# R's serialization (R-ints, "Serialization Formats"): types in the low byte of a flag word.
STRINGS, STRING = 16, 9
MISSING = -1


def unpack(folder: Path) -> Path:
    """Downloads the Debian package into a folder and unpacks it there."""
    subprocess.run(
        ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", PACKAGE],
        cwd=folder,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    package = next(folder.glob("*.deb"))
    subprocess.run(["dpkg-deb", "-x", str(package), str(folder)], check=True)
    return folder / DATA


def objects(database: bytes):
    """The serialized objects of an R lazy-load database: a length each, then a zlib stream."""
    while database:
        stream = zlib.decompressobj()
        yield stream.decompress(database[4:])
        database = stream.unused_data


def lines_of(serialized: bytes) -> list[str]:
    """The strings of a serialized character vector (version 3 of R's XDR format)."""
    if serialized[:2] != b"X\n":
        raise ValueError("not in R's XDR format")
    (encoding_length,) = struct.unpack_from(">i", serialized, 14)
    at = 18 + encoding_length
    flags, count = struct.unpack_from(">ii", serialized, at)
    if flags & 0xFF != STRINGS:
        raise ValueError(f"an object of type {flags & 0xFF}: must be a vector of strings")
    at += 8
    lines = []
    for _ in range(count):
        flags, size = struct.unpack_from(">ii", serialized, at)
        if flags & 0xFF != STRING or size == MISSING:
            raise ValueError("an element that is no string")
        lines.append(serialized[at + 8 : at + 8 + size].decode())
        at += 8 + size
    return lines


def paragraphs(lines: list[str]) -> str:
    """The text with a line for each run of lines that are not empty, and an empty one between."""
    runs = re.split(r"\n{2,}", "\n".join(lines).strip("\n"))
    return "\n\n".join(run.replace("\n", " ") for run in runs) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", nargs="?", default="build/texts", type=Path)
    parser.add_argument("--lines", action="store_true", help="leave lines as they are")
    options = parser.parse_args()
    folder: Path = options.folder
    with tempfile.TemporaryDirectory() as scratch:
        database = unpack(Path(scratch)).read_bytes()
    novels = {lines[0].strip().lower(): lines for lines in map(lines_of, objects(database))}
    folder.mkdir(parents=True, exist_ok=True)
    for name in NOVELS:
        path = folder / f"{name}.txt"
        lines = novels[name]
        text = "\n".join(lines) + "\n" if options.lines else paragraphs(lines)
        path.write_text(text)
        print(f"{path}: {len(text.split())} words")


if __name__ == "__main__":
    main()
