"""``dmverify attack``: inputs on which a kernel is farthest from attention."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dmverify.cli.output import console, json_option, print_json

if TYPE_CHECKING:
    from dmverify.attack.run import Settings

SHAPE = "1,1,32,32"


@click.command()
@click.argument("kernel")
@click.option("--contract", default="", help="Name or file of its contract, if not its own.")
@click.option(
    "--maximise",
    default="dq",
    show_default=True,
    help="o, dq, dk, dv, residual, colsum or gap:KERNEL.",
)
@click.option("--against", default="inputs", show_default=True, help="inputs or operands.")
@click.option("--shape", default=SHAPE, show_default=True, help="1,HEADS[/KEY HEADS],N,HEAD_DIM.")
@click.option("--causal", is_flag=True, help="Hide later keys.")
@click.option("--limits", default="statistical", show_default=True, help="statistical or stress.")
@click.option("--near", "capture", metavar="CAPTURE", help="Stay near a capture's first head.")
@click.option("--tokens", type=click.IntRange(2), default=64, show_default=True, help="Of it.")
@click.option("--within", default="3%", show_default=True, help="Of each element of it.")
@click.option(
    "--evaluations",
    type=click.IntRange(1),
    default=100_000,
    show_default=True,
    help="Of each seed; they decide what is found.",
)
@click.option(
    "--minutes",
    type=click.FloatRange(0, min_open=True),
    help="After which a seed begins no new round.",
)
@click.option("--seeds", type=click.IntRange(1), default=3, show_default=True, help="Attempts.")
@click.option(
    "--state", type=click.Path(path_type=Path, file_okay=False), help="Folder to go on from."
)
@click.option(
    "--on", "others", multiple=True, metavar="KERNEL", help="Ask this kernel too; repeatable."
)
@click.option(
    "--corpus",
    metavar="FOLDER",
    help="Search nothing: ask KERNEL this corpus's inputs; 'shipped' is dmverify's own.",
)
@click.option("-j", "--jobs", type=click.IntRange(1), default=1, help="Attempts side by side.")
@click.option("--out", type=click.Path(path_type=Path), help="File or folder for the worst input.")
@json_option
def command(
    kernel: str,
    seeds: int,
    jobs: int,
    out: Path | None,
    others: tuple[str, ...],
    corpus: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Search for the inputs on which KERNEL is worst, within limits; shrink and explain the find.

    An error is over max(norm of the exact output, 5 % of its size without cancellation), so that it
    cannot grow because an output vanishes. The find is asked of any kernel by
    'dmverify verify KERNEL --inputs FILE'.
    """
    from dmverify.attack.corpus import write_entry
    from dmverify.attack.run import asked_of, run
    from dmverify.attack.show import as_plain, plain_distances, show

    if corpus is not None:
        _ask(kernel, options["contract"], corpus, as_json)
        return
    settings = settings_of(kernel, **options)
    result = run(settings, range(seeds), jobs=jobs, tell=lambda line: click.echo(line, err=True))
    elsewhere = {
        name: asked_of(result.entry, name, settings.contract, settings.objective) for name in others
    }
    path = None if out is None else write_entry(out, result.entry)
    shown = as_plain(result) | {
        "on": {name: plain_distances(found) for name, found in elsewhere.items()},
        "file": "" if path is None else str(path),
    }
    if as_json:
        print_json(shown)
    else:
        show(shown, console())


def _ask(kernel: str, contract: str, corpus: str, as_json: bool) -> None:
    from dmverify.attack.run import asked_corpus
    from dmverify.attack.shipped import SHIPPED, read_indexed
    from dmverify.attack.show import show_corpus

    entries = read_indexed(SHIPPED if corpus == "shipped" else Path(corpus))
    rows = asked_corpus(kernel, contract, entries)
    if as_json:
        print_json({"rows": rows})
    else:
        show_corpus(rows, console())


def settings_of(
    kernel: str,
    *,
    contract: str,
    maximise: str,
    against: str,
    shape: str,
    causal: bool,
    limits: str,
    capture: str | None,
    tokens: int,
    within: str,
    evaluations: int,
    minutes: float | None,
    state: Path | None,
) -> Settings:
    """What the options say.

    Raises:
        InputError: For a shape or a percentage that is none.
    """
    from dmverify.attack.objective import read_objective
    from dmverify.attack.run import Settings
    from dmverify.attack.starts import from_capture, read_percent, read_shape

    problem, centre = read_shape(shape, causal=causal), None
    if capture is not None:
        problem, centre = from_capture(capture, tokens)
    return Settings(
        kernel=kernel,
        contract=contract,
        problem=problem,
        objective=read_objective(maximise, against),
        limits=limits,
        centre=centre,
        within=read_percent(within),
        evaluations=evaluations,
        seconds=None if minutes is None else 60 * minutes,
        state=state,
    )
