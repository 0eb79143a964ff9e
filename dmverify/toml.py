"""TOML of somebody else, read in bounded memory and time.

``tomllib`` keeps every beginning of a dotted key until its table ends, so that a key of n parts
takes about n^2 / 2 places: 64 kB of text took 4 GB and 11 s. A key ends with its line, and no table
that is read here needs one of more than two parts; a line's dots, whatever they stand in, are
therefore counted before anything is parsed. With both limits reached, a text takes 0.3 GB and 4 s.
"""

from __future__ import annotations

import tomllib
from typing import Any

LARGEST = 1 << 20  # characters
DOTS = 64  # of a line


def read_toml(text: str) -> dict[str, Any]:
    """The table that a text says.

    Args:
        text: TOML, of at most ``LARGEST`` characters and ``DOTS`` dots a line.

    Raises:
        ValueError: If it is longer, a line has more dots, or it is no TOML.
        RecursionError: If brackets stand too deep within brackets.
    """
    if len(text) > LARGEST:
        raise ValueError(f"{len(text)} characters, where TOML has {LARGEST} at most")
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > DOTS:
            raise ValueError(f"line {number} has more than {DOTS} dots")
    return tomllib.loads(text)
