"""``dmverify bench``: the bundled kernel's speed beside its peers', in one run."""

from __future__ import annotations

import click

from dmverify.cli.output import console, json_option, print_json


@click.command()
@click.option("--shape", "shapes", multiple=True, help="B,H,Hkv,N,D[,full]; may be repeated.")
@click.option("--kernel", "kernels", multiple=True, help="Kernel to time; may be repeated.")
@json_option
def command(shapes: tuple[str, ...], kernels: tuple[str, ...], as_json: bool) -> None:
    """Time forward and backward on this GPU.

    Without --kernel: the bundled kernel, and cuDNN and FlashAttention where they are installed; one
    that does not serve a shape is listed with the reason.
    """
    import torch

    from dmverify.conformance.bench.attention import bench
    from dmverify.conformance.bench.shapes import DEFAULT, parse_shape

    chosen = tuple(parse_shape(text) for text in shapes) or DEFAULT
    rows = []
    for row in bench(chosen, kernels=kernels):
        rows.append(row)
        click.echo(" ".join(f"{key}={value}" for key, value in row.items()), err=True)
    if as_json:
        print_json({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows})
        return
    out = console()
    for row in rows:
        out.print("  ".join(str(value) for value in row.values()), soft_wrap=True, markup=False)
