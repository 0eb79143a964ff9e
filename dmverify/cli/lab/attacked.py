"""What kernels of this project and of others answer to inputs that attacks found."""

from __future__ import annotations

from pathlib import Path

import click

from dmverify.cli.lab.options import FOLDER, out_option, say, write_record
from dmverify.lab.third_party.attacked import CONTRACTS, ask_corpus


@click.command()
@click.argument("corpus", type=FOLDER)
@click.option(
    "--kernels", default=",".join(CONTRACTS), help="Names of kernels, separated by commas."
)
@out_option
def attacked(corpus: Path, kernels: str, out: Path) -> None:
    """Ask kernels the files of CORPUS that attacks found, and the families in the same shapes."""
    record = ask_corpus(corpus, kernels.split(","))
    write_record(out, record)
    say(f"{len(record['rows'])} numbers, {len(record['refused'])} questions without an answer")
