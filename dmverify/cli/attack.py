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
    engine: str
    seeds: int
    state: Path | None
    others: tuple[str, ...]
    corpus: str | None
    jobs: int
    out: Path | None
    as_json: bool


@click.command()
@click.argument("kernel")
@click.option(
    "--contract",
    default="",
    help="Name or file of the contract; the kernel's own one unless given.",
)
@click.option(
    "--maximise",
    default="dq",
    show_default=True,
    help="What to make as large as possible: the error of o, dq, dk or dv, residual (row"
    " sums of dS), colsum (column sums), or gap:KERNEL (the distance from another "
    "kernel).",
)
@click.option(
    "--against",
    default="inputs",
    show_default=True,
    help="Errors are measured from attention on these: inputs, or their FP8 operands.",
)
@click.option(
    "--shape",
    default=SHAPE,
    show_default=True,
    help="Batch (1), query heads[/key heads], length, head dim.",
)
@click.option("--causal", is_flag=True, help="Hide later keys from each query.")
@click.option(
    "--limits",
    default="statistical",
    show_default=True,
    help="Which inputs are allowed: statistical (as in a trained model) or stress (far larger).",
)
@click.option(
    "--near",
    "capture",
    metavar="CAPTURE",
    help="Start from the first head of this capture and stay near it.",
)
@click.option(
    "--tokens",
    type=click.IntRange(2),
    default=64,
    show_default=True,
    help="How many tokens of the capture are taken.",
)
@click.option(
    "--within",
    default="3%",
    show_default=True,
    help="How far each element may move from the capture's, as a share of it.",
)
@click.option(
    "--evaluations",
    type=click.IntRange(1),
    default=100_000,
    show_default=True,
    help="Evaluations of each seed. With the seed they decide what is found.",
)
@click.option(
    "--minutes",
    type=click.FloatRange(0, min_open=True),
    help="Time after which a seed begins no new round.",
)
@click.option(
    "--device",
    default="cpu",
    show_default=True,
    help="Where --device-evaluations run: cpu or cuda.",
)
@click.option(
    "--device-evaluations",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Evaluations of each seed in floating point, in large stacks, before its first round.",
)
@click.option(
    "--engine",
    default="",
    help="The only engine that is used; 'random' draws inputs without any search.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Number of independent attempts.",
)
@click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder that keeps the state of the search; a search that was interrupted goes "
    "on from it.",
)
@click.option(
    "--on",
    "others",
    multiple=True,
    metavar="KERNEL",
    help="Ask this kernel for the find too; repeatable.",
)
@click.option(
    "--corpus",
    metavar="FOLDER",
    help="Search nothing: ask KERNEL this corpus's inputs; 'shipped' is dmverify's own.",
)
@click.option(
    "-j", "--jobs", type=click.IntRange(1), default=1, help="Attempts that run side by side."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="File for the worst input, or folder that collects such files.",
)
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
