"""The instructions of this GPU: recorded, fitted, compared with the models."""

from __future__ import annotations

from pathlib import Path

import click

from dmverify.cli.lab.options import FOLDER
from dmverify.cli.output import print_json
from dmverify.lab.bench import wgmma_speed as speed
from dmverify.lab.probes import fit as tables
from dmverify.lab.probes.record import record
from dmverify.lab.probes.verify import compare_all


@click.command()
@click.argument("out", type=FOLDER)
def probe(out: Path) -> None:
    """Record what this GPU's instructions return into OUT."""
    record(out)


@click.command()
@click.pass_context
def fit(ctx: click.Context) -> None:
    """Derive the tables of MUFU from this GPU; exit code 1 if others came out."""
    found = tables.fit_all()
    for name, same in found.items():
        click.echo(f"{name}: same tables {same}")
    ctx.exit(0 if all(found.values()) else 1)


@click.command()
@click.argument("seeds", type=int, default=1)
@click.argument("parts", nargs=-1, metavar="[PART]...")
@click.pass_context
def verify(ctx: click.Context, seeds: int, parts: tuple[str, ...]) -> None:
    """Compare the models with this GPU: PART is exhaustive, arithmetic or tensor-core."""
    ctx.exit(0 if compare_all(seeds, parts, click.echo) else 1)


@click.command()
def wgmma_speed() -> None:
    """Time the model of the tensor core beside its peers on this CPU."""
    print_json(speed.wgmma_speed())
