"""The `wgmma` instruction as users call it: checks, decoding, special values, chaining over K.

| argument | instruction |
|---|---|
| `a_format`, `b_format` | ``.e4m3`` or ``.e5m2`` of each operand |
| `accumulator` | ``.f32`` or ``.f16``, the type of C and D |
| `scale_d=False` | scale-d = 0: the first step reads C as +0 |
| `negate_a`, `negate_b` | imm-scale-a, imm-scale-b = -1: signs flipped before the product |

The rule is stated in `wgmma_reference`; `wgmma_fast` computes it with an f32 accumulator. With f16
the reference itself runs, a slice of rows at a time.
Not covered: `wgmma.sp`, and shapes: the result does not depend on how M and N are cut into tiles.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dmverify.errors import InputError
from dmverify.spec.formats import E4M3, E5M2, FloatFormat
from dmverify.spec.machine.hopper.wgmma_fast import GROUP, wgmma_finite
from dmverify.spec.machine.hopper.wgmma_reference import Codes, finite_step
from dmverify.spec.machine.hopper.wgmma_special import overlay_specials, split_specials
from dmverify.spec.namespace import Array, namespace_of

ACCUMULATORS = {"f32": "float32", "f16": "float16"}
_REFERENCE_ROWS = 64


def wgmma(
    a: Array,
    b: Array,
    c: Array,
    *,
    a_format: FloatFormat = E4M3,
    b_format: FloatFormat = E4M3,
    accumulator: str = "f32",
    scale_d: bool = True,
    negate_a: bool = False,
    negate_b: bool = False,
) -> Array:
    """D = A B^T + C as Hopper's FP8 tensor core computes it, in every bit.

    Args:
        a: uint8 codes, (M, K) with K a multiple of 32; longer K chains k32 steps in order.
        b: uint8 codes, (N, K).
        c: Accumulator, (M, N), float32 (``f32``) or float16 (``f16``).
        a_format: E4M3 or E5M2.
        b_format: E4M3 or E5M2.
        accumulator: ``f32`` or ``f16``.
        scale_d: False reads C as +0 in the first step.
        negate_a: Flips the sign of A.
        negate_b: Flips the sign of B.

    Returns:
        D, (M, N), in the dtype of `c`.

    Raises:
        InputError: Wrong dtype, shape, format or accumulator; f16 with torch tensors.

    >>> import numpy as np
    >>> one = np.full((1, 32), 0x38, np.uint8)
    >>> wgmma(one, one, np.full((1, 1), 2.0**20, np.float32)).tolist()
    [[1048576.0]]
    """
    _check_call(a_format, b_format, accumulator)
    _check((a, "uint8"), (b, "uint8"), (c, ACCUMULATORS[accumulator]), batched=False)
    xp = namespace_of(c)
    a = a ^ 0x80 if negate_a else a
    b = b ^ 0x80 if negate_b else b
    c = c if scale_d else xp.zeros_like(c)
    if accumulator == "f16":
        return _reference_chain(a, b, c, a_format, b_format)
    values = a_format.decode(a), b_format.decode(b)
    return wgmma_values(*values, c, a_format=a_format, b_format=b_format)


def wgmma_values(
    a: Array, b: Array, c: Array, *, a_format: FloatFormat = E4M3, b_format: FloatFormat = E4M3
) -> Array:
    """`wgmma` with an f32 accumulator on operands that are already decoded.

    Args:
        a: float32 values of `a_format`, (..., M, K) with K a multiple of 32.
        b: float32 values of `b_format`, (..., N, K).
        c: float32 accumulator, (..., M, N); the leading dimensions of the three broadcast.
        a_format: Format that every value of `a` is exact in (not checked).
        b_format: Format that every value of `b` is exact in (not checked).

    Returns:
        D, float32, (..., M, N).

    Raises:
        InputError: Wrong dtype, shape or format.
    """
    _check_call(a_format, b_format, "f32")
    _check((a, "float32"), (b, "float32"), (c, "float32"), batched=True)
    xp = namespace_of(c)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2], c.shape[:-2])
    flat = [xp.broadcast_to(x, batch + tuple(x.shape[-2:])) for x in (a, b, c)]
    if 0 in flat[2].shape:
        return flat[2] + 0.0
    flat = [x.reshape(-1, *x.shape[-2:]) for x in flat]
    finite, special = zip(*(split_specials(x) for x in flat), strict=True)
    d = wgmma_finite(*finite, a_emin=a_format.emin, b_emin=b_format.emin)
    if any(special):
        d = overlay_specials(d, flat[0], flat[1], c=flat[2])
    return d.reshape(*batch, *d.shape[-2:])


def _reference_chain(
    a: Array, b: Array, c: Array, a_format: FloatFormat, b_format: FloatFormat
) -> Array:
    """f16 accumulators: a finite step may overflow, so specials are settled at every step."""
    if namespace_of(c) is not np:
        raise InputError(
            "accumulator='f16' on torch tensors",
            rule="f16 accumulators run the numpy reference",
            fix="move the operands to numpy: tensor.cpu().numpy()",
        )
    d = c.copy()
    for rows in range(0, c.shape[0], _REFERENCE_ROWS):
        part = slice(rows, rows + _REFERENCE_ROWS)
        for k in range(0, a.shape[1], GROUP):
            group = slice(k, k + GROUP)
            d[part] = _reference_step(a[part, group], b[:, group], d[part], a_format, b_format)
    return d


def _reference_step(
    a: Array, b: Array, c: Array, a_format: FloatFormat, b_format: FloatFormat
) -> Array:
    values = a_format.decode(a), b_format.decode(b)
    finite = [
        np.where(np.isfinite(v), x, 0).astype(x.dtype) for v, x in zip(values, (a, b), strict=True)
    ]
    clean = np.where(np.isfinite(c), c, 0).astype(c.dtype)
    d = finite_step(Codes(finite[0], a_format), Codes(finite[1], b_format), clean)
    if all(np.isfinite(x).all() for x in (*values, c)):
        return d
    return overlay_specials(d, *values, c=c)


def _check_call(a_format: FloatFormat, b_format: FloatFormat, accumulator: str) -> None:
    for fmt in (a_format, b_format):
        if fmt not in (E4M3, E5M2):
            raise InputError(
                getattr(fmt, "name", fmt),
                rule="FP8 wgmma takes E4M3 and E5M2 operands",
                fix="pass dmverify.spec.formats.E4M3 or E5M2",
            )
    if accumulator not in ACCUMULATORS:
        raise InputError(
            repr(accumulator),
            rule="FP8 wgmma accumulates in f32 or f16",
            fix="pass accumulator='f32' or 'f16'",
        )


def _check(*wanted: tuple[Any, str], batched: bool) -> None:
    """Checks library, dtypes and shapes of a call: a, b and c, each with the dtype that is due."""
    a, b, c = (x for x, _ in wanted)
    xp = namespace_of(c)
    for name, (x, dtype) in zip("abc", wanted, strict=True):
        if namespace_of(x) is not xp or x.dtype != getattr(xp, dtype):
            raise InputError(
                f"{name} is {type(x).__name__} of {x.dtype}",
                rule=f"{name} is {dtype}, in the same library as c",
                fix=f"convert {name} to {dtype}",
            )
    shapes = f"a {tuple(a.shape)}, b {tuple(b.shape)}, c {tuple(c.shape)}"
    ranks = {x.ndim for x in (a, b, c)}
    if min(ranks) < 2 or (not batched and ranks != {2}):
        raise InputError(shapes, rule="a, b and c are matrices", fix="pass (M, K), (N, K), (M, N)")
    if a.shape[-1] != b.shape[-1] or a.shape[-1] % GROUP or a.shape[-1] == 0:
        raise InputError(
            shapes,
            rule=f"a is (M, K) and b (N, K) with K a positive multiple of {GROUP}",
            fix=f"pad K with zero codes to a multiple of {GROUP}; b is not transposed",
        )
    if tuple(c.shape[-2:]) != (a.shape[-2], b.shape[-2]):
        raise InputError(
            shapes,
            rule="c is (M, N) for a (M, K) and b (N, K)",
            fix="pass c of shape (a's rows, b's rows)",
        )
