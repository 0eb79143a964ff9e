"""``dmverify attack``: inputs on which a kernel is farthest from attention."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from dmverify.cli.output import json_option
from dmverify.cli.records import as_record

SHAPE = "1,1,32,32"


@dataclass(frozen=True)
class Options:
    """What is searched, within which limits, and where the find goes."""

    contract: str
    maximise: str
    against: str
    shape: str
    causal: bool
    limits: str
    capture: str | None
    tokens: int
    within: str
    evaluations: int
    minutes: float | None
    device: str
    device_evaluations: int
    seeds: int
    state: Path | None
    others: tuple[str, ...]
    corpus: str | None
    jobs: int
    out: Path | None
    as_json: bool


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
@click.option(
    "--device",
    default="cpu",
    show_default=True,
    help="Where --device-evaluations are done: cpu or cuda.",
)
@click.option(
    "--device-evaluations",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Of each seed, of the float interpretation, in large stacks, before its first round.",
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
@as_record(Options)
def command(kernel: str, options: Options) -> None:
    """Search for the inputs on which KERNEL is worst, within limits; shrink and explain the find.

    An error is over max(norm of the exact output, 5 % of its size without cancellation), so that it
    cannot grow because an output vanishes. The find is asked of any kernel by
    'dmverify verify KERNEL --inputs FILE'.
    """
    from dmverify.cli.attack_search import ask_corpus, search  # torch, which help does without

    if options.corpus is not None:
        ask_corpus(kernel, options)
    else:
        search(kernel, options)
