"""``python -m dmverify.lab.third_party ask OUT`` and ``check OUT``: see the package."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dmverify.lab.third_party.crowd import FACTORIES, HEAD_DIM, STAGES, USUAL_HEAD_DIM, ask_all
from dmverify.lab.third_party.kernels import make_from


def main() -> int:
    """Parses the command line and runs it."""
    parser = argparse.ArgumentParser(prog="python -m dmverify.lab.third_party")
    verbs = parser.add_subparsers(dest="verb", required=True)
    ask = verbs.add_parser("ask", help="run every peer on this GPU")
    ask.add_argument("out", type=Path)
    ask.add_argument("--seconds", type=int, default=150, help="after which peers are stopped")
    ask.add_argument("--peers", default=",".join(FACTORIES))
    one = verbs.add_parser("ask-one", help="run one peer on this GPU")
    one.add_argument("out", type=Path)
    one.add_argument("peer", choices=sorted(FACTORIES))
    check = verbs.add_parser("check", help="judge answers and write reports")
    check.add_argument("answers", type=Path)
    check.add_argument("--reports", type=Path, help="folder for reports and the answers to keep")
    args = parser.parse_args()
    if args.verb == "ask":
        return ask_all(args.peers.split(","), args.out, args.seconds)
    if args.verb == "ask-one":
        return _ask_one(args.peer, args.out)
    from dmverify.lab.third_party.checking import check_all

    return check_all(args.answers, args.reports)


def _ask_one(name: str, out: Path) -> int:
    from dmverify.lab.third_party.kernels.asking import ask

    peer = make_from(FACTORIES[name])
    missing = peer.missing()
    if missing:
        sys.stderr.write(f"{name}: {missing}\n")
        return 5
    head_dim = HEAD_DIM.get(name, USUAL_HEAD_DIM)
    book = ask(peer, head_dim, out, stages=STAGES.get(name, ()))
    errors = sum(bool(entry.error) for entry in book.entries)
    sys.stderr.write(f"{name}: {len(book.entries)} asked, {errors} errors, {book.made_by}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
