"""``dmverify gen``: the first of three steps, a list of cases."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from dmverify.cli.inputs import Files, inputs_options, seed_of
from dmverify.cli.records import as_record
from dmverify.conformance.families import generate
from dmverify.conformance.questions import list_asked, write_asked
from dmverify.conformance.tensor_files import name_cases
from dmverify.conformance.tensor_files.hand_on import hand_on
from dmverify.conformance.words import visible
from dmverify.files import prepare_file


@dataclass(frozen=True)
class Options:
    """Which cases, and in what form."""

    contract: str
    level: str
    seed: int
    cases: tuple[str, ...]
    kind: str


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--contract", default="bundled", show_default=True, help="Name or file of the contract."
)
@click.option(
    "--level",
    default="smoke",
    show_default=True,
    help="Level whose cases are written: smoke or full.",
)
@seed_of("First seed of the drawn cases.")
@click.option(
    "--case", "cases", multiple=True, help="Case id to write instead of a level; repeatable."
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["list", "safetensors", "npz", "pt"]),
    default="list",
    show_default=True,
    help="list: ids, one a line; or the format of a folder of tensors.",
)
@inputs_options
@as_record(Options)
def command(out: Path, inputs: Files, options: Options) -> None:
    """Write the cases of a level to OUT, one JSON object a line.

    With --inputs the list has the cases of files; 'run' and 'check' then need the same option.

    With another --format than list, OUT is a folder with the tensors of each case, for programs
    that know nothing of dmverify.

    Run them with 'dmverify run' where the kernel is, and judge the recording with 'dmverify check'
    on any machine.
    """
    ids, _ = name_cases(options.cases, inputs.sources())
    asked = list_asked(level=options.level, contract=options.contract, seed=options.seed, cases=ids)
    if options.kind == "list":
        prepare_file(out)
        write_asked(asked, out)
    else:
        found = (generate(case_id, contract=stated) for case_id, stated in asked)
        hand_on(found, out, options.kind)
    click.echo(visible(f"{len(asked)} cases in {out}"))
