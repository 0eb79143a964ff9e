"""``dmverify faults``: every seeded wrong kernel must be rejected; the kill matrix."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import click
from rich.markup import escape
from rich.table import Table

from dmverify.cli.output import console, json_option, print_json
from dmverify.cli.records import as_record
from dmverify.late import object_at

if TYPE_CHECKING:
    from dmverify.lab.mutants.matrix import BackEnd

MARK, BLANK = "x", "."
EMULATOR, BUNDLED, SIMULATION = "emulator", "bundled", "simulation"
# What makes the faulty kernels of each, loaded alone: one of them needs a GPU's libraries.
BACK_ENDS = MappingProxyType(
    {
        EMULATOR: "dmverify.lab.mutants.emulator:EmulatorMutants",
        BUNDLED: "dmverify.lab.mutants.cuda.back_end:CudaMutants",
        SIMULATION: "dmverify.lab.mutants.simulated:SimulationMutants",
    }
)

Rows: TypeAlias = list[list[str]]
Shape: TypeAlias = dict[str, Any]
"""What ``Matrix.to_json`` gives, or a recording of it."""


@dataclass(frozen=True)
class Options:
    """Whose faults are tried, and how the matrix is shown."""

    kernel: str
    answers: Path | None
    alarm_seeds: int
    markdown: bool
    power: bool
    as_json: bool

    def maker(self, folder: Path) -> BackEnd:
        """What makes the faulty kernels; those of CUDA keep their answers in the folder."""
        make = object_at(BACK_ENDS[self.kernel])
        maker: BackEnd = make(folder) if self.kernel == BUNDLED else make()
        return maker


@click.command()
@click.argument("faults", nargs=-1, metavar="[FAULT]...")
@click.option(
    "--kernel",
    type=click.Choice(list(BACK_ENDS)),
    default=EMULATOR,
    show_default=True,
    help="Back end whose faults are tried: emulator, the CUDA kernel (bundled; needs a "
    "Hopper GPU), or the torch simulation, which has faults of memory and conduct "
    "too.",
)
@click.option(
    "--answers",
    type=click.Path(file_okay=False, path_type=Path),
    help="With --kernel bundled: folder for the faulty kernels' answers. Answers that it"
    " holds already are judged, without a GPU.",
)
@click.option(
    "--alarm-seeds",
    default=2,
    show_default=True,
    help="Seeds of each case on which the correct kernel is judged; it must not be rejected.",
)
@click.option(
    "--markdown",
    is_flag=True,
    help="Print counts and matrix in Markdown, with the recorded matrix of the CUDA kernel.",
)
@click.option(
    "--power",
    is_flag=True,
    help="Instead of faults, plant errors of stated sizes and show which ones every "
    "check notices in every family. FAULT then names a family.",
)
@json_option
@click.pass_context
@as_record(Options)
def command(ctx: click.Context, faults: tuple[str, ...], options: Options) -> None:
    """Try FAULT, or every seeded fault, against our checks and against public rules.

    Exit code 1 if a fault is not rejected by the check that names it, or if a check rejects the
    correct kernel.
    """
    # Both need torch, which help does without.
    from dmverify.cli.faults_matrix import kills_of, recorded
    from dmverify.cli.faults_power import show_power

    if options.power:
        ctx.exit(0 if show_power(faults, markdown=options.markdown, as_json=options.as_json) else 1)
    with tempfile.TemporaryDirectory() as folder:
        maker = options.maker(options.answers or Path(folder))
        matrix = kills_of(faults, maker, options.alarm_seeds)
    shape = matrix.to_json()
    if options.as_json:
        print_json(shape)
    elif options.markdown:
        others = recorded() if options.kernel == EMULATOR and not faults else {}
        named = {f"{BUNDLED}, recorded on {device}": each for device, each in others.items()}
        shown = {options.kernel: shape, **named}
        click.echo("\n\n".join(_markdown(*table) for table in _all_tables(shown)))
    else:
        _show(shape)
    ctx.exit(0 if matrix.ok else 1)


def _show(shape: Shape) -> None:
    screen = console()
    for title, (header, *rows) in _tables(shape).items():
        table = Table(title=title, title_justify="left", box=None, pad_edge=False)
        for i, name in enumerate(header):
            table.add_column(name, overflow="fold", no_wrap=i == 0 and title != "kills")
        for row in rows:
            table.add_row(*map(escape, row))
        screen.print(table)
    for alarm in shape["false_positives"]["where"]:
        checks = ", ".join(alarm["checks"])
        screen.print(escape(f"false positive: {checks} on {alarm['case']} ({alarm['contract']})"))
    for row in shape["faults"]:
        if not row["killed"]:
            screen.print(escape(f"not rejected by {row['names']}: {row['id']}{_why(row)}"))


def _why(row: Shape) -> str:
    """How often a matter of timing was seen, or why nothing was learnt."""
    if row.get("runs"):
        return f" (seen in {row['caught']} of {row['runs']} runs)"
    return f" ({row['reason']})" if row.get("reason") else ""


def _markdown(title: str, rows: Rows) -> str:
    header, *body = ("| " + " | ".join(row) + " |" for row in rows)
    return "\n".join([f"### {title}", "", header, "|---" * len(rows[0]) + "|", *body])


def _all_tables(shown: dict[str, Shape]) -> list[tuple[str, Rows]]:
    """Every table; titles say whose faults once there is more than one kernel."""
    several = len(shown) > 1
    return [
        (f"{title} ({kernel})" if several else title, rows)
        for kernel, shape in shown.items()
        for title, rows in _tables(shape).items()
    ]


def _tables(shape: Shape) -> dict[str, Rows]:
    """Title and rows of each table, the header first."""
    hidden = [row for row in shape["faults"] if not row["killed_without_bits"]]
    tables = {"faults": _faults(shape), "kills": _counts(shape)}
    if hidden:
        tables["rejected by bits only"] = _hidden(hidden)
    return tables


def _faults(shape: Shape) -> Rows:
    rows = [["fault", "rejected by", "bounds alone", *shape["public_rules"]]]
    for row in shape["faults"]:
        kills = (row["killed_without_bits"], *row["public_rules"].values())
        marks = (MARK if killed else BLANK for killed in kills)
        rows.append([row["id"], row["by"] or "nothing", *marks])
    return rows


def _hidden(hidden: Sequence[Shape]) -> Rows:
    rows = [["fault", "relative error", "why no bound sees it"]]
    for row in hidden:
        error = "infinite" if row["error"] is None else f"{row['error']:.1e}"
        rows.append([row["id"], error, row["hidden"] or "not known"])
    return rows


def _counts(shape: Shape) -> Rows:
    total, alarms = len(shape["faults"]), shape["false_positives"]
    killed = sum(row["killed"] for row in shape["faults"])
    bounded = sum(row["killed_without_bits"] for row in shape["faults"])
    clean = f"{alarms['alarms']} of {alarms['cases']} cases"
    rows = [
        ["suite", "rule", f"kills of {total}", "rejects the correct kernel"],
        [
            "dmverify",
            "bits and bounds",
            str(killed),
            alarms.get("with_bits", "never, by definition"),
        ],
        ["dmverify", "bounds alone", str(bounded), clean],
    ]
    for rule in shape["public_rules"].values():
        refused = f"{rule['rejects_correct']} of {shape['cases']} cases"
        rows.append([rule["suite"], rule["rule"], str(rule["kills"]), refused])
    return rows
