"""What the specification says a recorded instruction must give, in bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from dmverify.lab.probes.wgmma_source import Form
from dmverify.spec.formats import BF16, E4M3, E5M2
from dmverify.spec.machine import hopper
from dmverify.spec.namespace import Array, bitcast, namespace_of

_FORMATS = {"e4m3": E4M3, "e5m2": E5M2}

UNARY: dict[str, Callable[[Array], Array]] = {
    "ex2_ftz": hopper.ex2,
    "ex2": partial(hopper.ex2, ftz=False),
    "lg2_ftz": hopper.lg2,
    "lg2": partial(hopper.lg2, ftz=False),
    "rcp_ftz": hopper.rcp,
    "rcp": partial(hopper.rcp, ftz=False),
    "rcp_rn": hopper.rcp_rn,
    "sqrt_rn": hopper.sqrt,
    "cvt_e4m3": partial(hopper.cvt, fmt=E4M3),
    "cvt_e5m2": partial(hopper.cvt, fmt=E5M2),
    "cvt_bf16": partial(hopper.cvt, fmt=BF16),
}
"""Instructions of one operand, by the name of their sweep."""

_ARITHMETIC: dict[str, tuple[Callable[..., Array], int]] = {
    "add_rn": (hopper.add, 2),
    "mul_rn": (hopper.mul, 2),
    "fma_rn": (hopper.fma, 3),
    "div_rn": (hopper.div, 2),
    "rcp_rn": (hopper.rcp_rn, 1),
    "sqrt_rn": (hopper.sqrt, 1),
    "max": (hopper.maximum, 2),
}


def arithmetic(name: str, operands: Array) -> Array:
    """float32 results of the arithmetic instruction `name` on float32 operands (3, count)."""
    operation, arity = _ARITHMETIC[name.removesuffix("_ftz")]
    return operation(*operands[:arity], ftz=name.endswith("_ftz"))


def tensor_core(form: Form, a: Array, b: Array, *, c: Array) -> Array:
    """D of a batch of tiles with an f32 accumulator, in float32.

    Args:
        form: The instruction's form.
        a: Codes, (tiles, 64, k), numpy or torch.
        b: Codes, (tiles, n, k).
        c: float32, (tiles, 64, n).
    """
    xp = namespace_of(c)
    a_format, b_format = _FORMATS[form.a_type], _FORMATS[form.b_type]
    values_a, values_b = a_format.decode(a) * form.scale_a, b_format.decode(b) * form.scale_b
    c = c if form.scale_d else xp.zeros_like(c)
    return hopper.wgmma_values(values_a, values_b, c, a_format=a_format, b_format=b_format)


def tensor_core_tile(form: Form, a: Array, b: Array, *, c: Array) -> Array:
    """D of one tile by the public call, in the dtype of `c`; numpy only."""
    return hopper.wgmma(
        a,
        b,
        c,
        a_format=_FORMATS[form.a_type],
        b_format=_FORMATS[form.b_type],
        accumulator=form.accumulator,
        scale_d=bool(form.scale_d),
        negate_a=form.scale_a < 0,
        negate_b=form.scale_b < 0,
    )


def bits(x: Array) -> Array:
    """Float results as the integers that recordings hold; codes as they are."""
    if namespace_of(x) is np:
        return x.view(f"uint{8 * x.itemsize}")
    signed = {1: "uint8", 2: "int16", 4: "int32"}[x.element_size()]
    return bitcast(x, signed)
