"""``dmverify bench``: the bundled kernel's speed beside its peers', in one run."""

from __future__ import annotations

import click
import torch

from dmverify.cli.output import console, json_option, print_json
from dmverify.errors import KernelError
from dmverify.lab.bench.attention import bench
from dmverify.lab.bench.shapes import DEFAULT, parse_shape


@click.command()
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    help="Shape B,H,Hkv,N,D, with ,full for no causal mask; repeatable.",
)
@click.option("--kernel", "kernels", multiple=True, help="Kernel to time; repeatable.")
@json_option
@click.pass_context
def command(
    ctx: click.Context, shapes: tuple[str, ...], kernels: tuple[str, ...], as_json: bool
) -> None:
    """Time forward and backward on this GPU, from a cold start and back to back.

    Without --kernel: the bundled kernel, and cuDNN and FlashAttention where they are installed; one
    that does not serve a shape is listed with the reason. What did not do its work, or beats the
    card's peak, is an error instead of a time, and the exit code is 3.
    """
    chosen = tuple(parse_shape(text) for text in shapes) or DEFAULT
    rows = []
    for row in bench(chosen, kernels=kernels):
        rows.append(row)
        click.echo(" ".join(f"{key}={value}" for key, value in row.items()), err=True)
    if as_json:
        print_json({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows})
    else:
        print_rows(rows)
    ctx.exit(KernelError.exit_code if any("error" in row for row in rows) else 0)


def print_rows(rows: list[dict[str, str | float]]) -> None:
    """One line a row; times carry their unit, everything else speaks for itself."""
    units = {"cold_ms": "ms cold", "busy_ms": "ms back to back"}
    units |= dict.fromkeys(("cold_tflops", "busy_tflops"), "TFLOP/s")
    named = {"error": "ERROR: ", "skip": "skipped: "}
    out = console()
    for row in rows:
        words = (f"{named.get(key, '')}{x} {units.get(key, '')}".strip() for key, x in row.items())
        out.print("  ".join(words), soft_wrap=True, markup=False)
