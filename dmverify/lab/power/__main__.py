"""Measures the table and writes it and its page: ``python -m dmverify.lab.power``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from dmverify.files import write_atomically
from dmverify.lab.power.page import page
from dmverify.lab.power.record import NAME, make_table


def main(words: list[str] | None = None) -> int:
    """Writes both files."""
    parser = argparse.ArgumentParser(prog="python -m dmverify.lab.power")
    parser.add_argument("--table", type=Path, default=Path(__file__).parent / NAME)
    parser.add_argument("--page", type=Path, default=Path("docs/power.md"))
    chosen = parser.parse_args(words)
    table = make_table(progress=lambda family: print(family, file=sys.stderr))  # noqa: T201
    write_atomically(chosen.table, json.dumps(table, indent=None, separators=(",", ":")) + "\n")
    chosen.page.parent.mkdir(exist_ok=True)
    write_atomically(chosen.page, page(table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
