"""Kernels that others ship: asked on a Hopper GPU once, judged on any CPU from what they said."""

from __future__ import annotations

from pathlib import Path

import click

from dmverify.cli.lab.options import FOLDER, say
from dmverify.lab.third_party.checking import check_all
from dmverify.lab.third_party.kernels import make_from
from dmverify.lab.third_party.kernels.collect import collect
from dmverify.lab.third_party.run_all import FACTORIES, HEAD_DIM, STAGES, USUAL_HEAD_DIM, run_all

NOT_INSTALLED = 5


@click.command()
@click.argument("out", type=FOLDER)
@click.option("--seconds", default=150, show_default=True, help="After which peers are stopped.")
@click.option("--peers", default=",".join(FACTORIES), help="Comma between names; all if left out.")
@click.pass_context
def ask(ctx: click.Context, out: Path, seconds: int, peers: str) -> None:
    """Run every peer, each in a process of its own, and write what they answer to OUT."""
    ctx.exit(run_all(peers.split(","), out, seconds))


@click.command()
@click.argument("out", type=FOLDER)
@click.argument("peer", type=click.Choice(sorted(FACTORIES)))
@click.pass_context
def ask_one(ctx: click.Context, out: Path, peer: str) -> None:
    """Run one peer; exit code 5 if it is not installed."""
    kernel = make_from(FACTORIES[peer])
    if missing := kernel.missing():
        say(f"{peer}: {missing}")
        ctx.exit(NOT_INSTALLED)
    head_dim = HEAD_DIM.get(peer, USUAL_HEAD_DIM)
    results = collect(kernel, head_dim, out, stages=STAGES.get(peer, ()))
    errors = sum(bool(entry.error) for entry in results.entries)
    say(f"{peer}: {len(results.entries)} asked, {errors} errors, {results.made_by}")


@click.command()
@click.argument("answers", type=FOLDER)
@click.option("--reports", type=FOLDER, help="Folder for reports and the answers to keep.")
@click.pass_context
def judge(ctx: click.Context, answers: Path, reports: Path | None) -> None:
    """Judge ANSWERS; exit code 0 if all conform, 1 if one does not, 5 if there is none."""
    ctx.exit(check_all(answers, reports))
