"""Faults of what leaves the kernel: LSE, special values, instructions, and kernels that do nothing.

Kernels that remember or forget between calls are no change of one run, so they are written out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from dmverify.conformance.adapter import Forward
from dmverify.conformance.faults import cases as on
from dmverify.conformance.faults.altered import altered, multiply_then_add, with_operations
from dmverify.conformance.faults.fault import Fault, Plant, Step
from dmverify.conformance.faults.planted import Planted
from dmverify.spec.arithmetic.bits import Bits
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention.operands import Head
from dmverify.spec.attention.softmax import OFFSET
from dmverify.spec.case import F32, F64, Case, Inputs, Outputs
from dmverify.spec.contracts import Contract
from dmverify.spec.formats import FloatFormat
from dmverify.spec.namespace import Array

TENSORS = ("o", "dq", "dk", "dv")
BF16_MAX = np.float32(3.3895313892515355e38)
SMALLEST_NORMAL = np.float32(2.0**-126)


def _each(change: Callable[[F32], F32], *names: str) -> Plant:
    """Outputs that are stored differently."""

    def outputs(made: Outputs, case: Case) -> Outputs:
        changed = {name: change(getattr(made, name)).astype(np.float32) for name in names}
        return replace(made, **changed)

    return Plant(outputs=outputs)


def _read(change: Callable[[F32], F32]) -> Plant:
    return Plant(inputs=lambda read: Inputs(**{name: change(x) for name, x in read.items()}))


def _lower_reference(
    original: Step, case: Case, a: Arithmetic, contract: Contract, head: Head, *args: Any
) -> Array:
    reference, total = args
    return original(a, contract, head, reference - np.float32(OFFSET), total)


def _without_mean(
    original: Step, case: Case, a: Arithmetic, contract: Contract, *args: Any
) -> Array:
    return original(a, replace(contract, centre_k="none"), *args)


def _by_position(lse: F32) -> F32:
    """Stored (position, head) and read (head, position)."""
    return np.ascontiguousarray(lse.swapaxes(1, 2)).reshape(lse.shape)


def _last_row_zero(x: F32) -> F32:
    return np.concatenate([x[:, :-1], np.zeros_like(x[:, -1:])], axis=1)


def _flushed(x: F32) -> F32:
    return np.where(np.abs(x) < SMALLEST_NORMAL, np.copysign(np.float32(0), x), x)


def _wide(original: Step, case: Case, a: Arithmetic, name: str, x: F64) -> Array:
    return x.astype(np.float32) if name == "o" else original(a, name, x)


def _toward_zero(original: Step, case: Case, a: Arithmetic, name: str, x: F64) -> Array:
    stored = original(a, name, x)
    if name not in TENSORS:
        return stored
    bits = np.ascontiguousarray(x.astype(np.float32)).view(np.uint32) & np.uint32(0xFFFF0000)
    return bits.view(np.float32)


def _exact_dot(base: Arithmetic, x: Array, y: Array, *, over: str) -> Array:
    """Sums of float32, as an instruction with a wider accumulator gives them."""
    return (x.astype(np.float64) @ y.astype(np.float64).T).astype(np.float32)


def _bf16_path(bits: Bits) -> Arithmetic:
    """Nothing is cast to FP8: operands, P and dS keep their digits."""
    bits.casts = frozenset({"o"})

    def keep(base: Arithmetic, x: Array, fmt: FloatFormat, *, site: str, saturate: bool) -> Array:
        return base.cast(x, fmt, site=site, saturate=saturate) if site == "o" else x

    return altered(bits, dot=_exact_dot, cast=keep)


def _rounded_exp2(base: Arithmetic, x: Array) -> Array:
    return cast(Array, np.exp2(x.astype(np.float64)).astype(np.float32))


def _next_up(base: Arithmetic, x: Array, y: Array) -> Array:
    return np.nextafter(base.div(x, y), np.float32(np.inf))


def _lanes_in_another_order(original: Step, case: Case, a: Arithmetic, lanes: Array) -> Array:
    order = [0, 2, 1, 3] if lanes.shape[1] == 4 else range(lanes.shape[1])
    return original(a, lanes[:, list(order)])


class LastCall(Planted):
    """Answers every call with the outputs of the case before, if their shapes agree."""

    def __init__(self) -> None:
        super().__init__("last-call", Plant())
        self._kept: list[Outputs] = []

    def forward(self, case: Case) -> Forward:
        """The kept O and LSE; what is computed is kept for the next case."""
        self._kept = [*self._kept[-1:], super().backward(case)]
        answer = self.backward(case)
        return Forward(answer.o, answer.lse)

    def backward(self, case: Case) -> Outputs:
        """The kept outputs."""
        old, new = self._kept[0], self._kept[-1]
        return old if old.o.shape == new.o.shape and old.dk.shape == new.dk.shape else new


class Forgetful(Planted):
    """The last bit of one element of O depends on which call it is."""

    def __init__(self) -> None:
        super().__init__("unrepeatable", Plant())

    def forward(self, case: Case) -> Forward:
        """O with one bit changed."""
        answer = super().forward(case)
        o = answer.o.copy()
        o.reshape(-1).view(np.uint32)[:1] ^= np.uint32(0x10000)
        return Forward(o, answer.lse)


ROWS = (
    Fault(
        "lse-base-2",
        "LSE",
        "LSE is a base-2 logarithm",
        "lse",
        Plant({"forward._lse": with_operations(ln2=lambda base: np.ones((1, 1), np.float32))}),
        (on.GAUSSIAN,),
    ),
    Fault(
        "lse-natural-log",
        "LSE",
        "the logarithm of the row sum is natural where base 2 is due",
        "lse",
        Plant({"forward._lse": with_operations(log2=lambda base, x: np.log(x))}),
        (on.GAUSSIAN,),
    ),
    Fault(
        "lse-offset-missing",
        "LSE",
        "the offset 2^8 of P stays in LSE",
        "lse",
        Plant({"forward._lse": _lower_reference}),
        (on.GAUSSIAN,),
    ),
    Fault(
        "lse-mean-missing",
        "LSE",
        "what centring took off the logits is not given back",
        "lse",
        Plant({"forward._lse": _without_mean}),
        (on.K_OFFSET,),
    ),
    Fault(
        "lse-head-stride",
        "LSE",
        "LSE is stored with the strides of (position, head)",
        "lse",
        _each(_by_position, "lse"),
        (on.GROUPED,),
    ),
    Fault(
        "lse-block-index",
        "LSE",
        "every block of 64 rows takes the LSE of the block before",
        "lse",
        _each(lambda lse: np.roll(lse, 64, axis=-1), "lse"),
        (on.GAUSSIAN,),
    ),
    Fault(
        "last-row-lost",
        "geometry",
        "the last row of O is not written",
        "o",
        _each(_last_row_zero, "o"),
        (on.GAUSSIAN,),
    ),
    Fault(
        "nan-swallowed",
        "special values",
        "NaN is read as 0",
        "nan",
        _read(lambda x: np.where(np.isnan(x), np.float32(0), x)),
        (on.NAN_V,),
    ),
    Fault(
        "infinity-finite",
        "special values",
        "infinity is read as the largest number",
        "nan",
        _read(lambda x: np.clip(x, -BF16_MAX, BF16_MAX)),
        (on.INF_V,),
    ),
    Fault(
        "negative-zero-lost",
        "special values",
        "-0 is stored as +0",
        "bits",
        _each(lambda x: x + np.float32(0), *TENSORS),
        (on.SIGNED_ZEROS, on.INTEGERS),
        hidden="-0 and +0 are equal numbers",
    ),
    Fault(
        "denormals-flushed",
        "special values",
        "outputs below 2^-126 are stored as 0",
        "dq",
        _each(_flushed, *TENSORS),
        (on.TINY_DO,),
    ),
    Fault(
        "wide-output",
        "special values",
        "O is stored in float32",
        "format",
        Plant({"interpret._stored": _wide}),
        (on.GAUSSIAN,),
    ),
    Fault(
        "store-toward-zero",
        "special values",
        "outputs are rounded to BF16 toward zero",
        "o",
        Plant({"interpret._stored": _toward_zero}),
        (on.GAUSSIAN,),
    ),
    Fault(
        "wide-accumulator",
        "instruction",
        "dot products are summed in float32, as by mma.sync on converted operands",
        "bits",
        Plant(arithmetic=lambda bits: altered(bits, dot=_exact_dot)),
        (on.GAUSSIAN, on.POSITIVE),
    ),
    Fault(
        "bf16-path",
        "instruction",
        "nothing is cast to FP8: a BF16 kernel behind an FP8 name",
        "o",
        Plant(arithmetic=_bf16_path),
        (on.GAUSSIAN,),
    ),
    Fault(
        "exp2-rounded",
        "instruction",
        "2^x is correctly rounded instead of ex2.approx",
        "bits",
        Plant(arithmetic=lambda bits: altered(bits, exp2=_rounded_exp2)),
        (on.GAUSSIAN,),
        hidden="the bound takes any exp2 within ex2.approx's measured error, and this is better",
    ),
    Fault(
        "reciprocal-one-ulp",
        "instruction",
        "1 / l is one ulp too large, as rcp.approx may be",
        "bits",
        Plant({"forward.reciprocal": with_operations(div=_next_up)}),
        (on.GAUSSIAN, on.CONSTANT_V),
        hidden="2^-23 of O, of which BF16 keeps 2^-8; l is only known up to its order of summation",
    ),
    Fault(
        "row-sum-order",
        "instruction",
        "the four lanes of a row sum are combined in another order",
        "bits",
        Plant({"forward.combine": _lanes_in_another_order}),
        (on.GAUSSIAN,),
        hidden="the bound is over every order of summation",
    ),
    Fault(
        "key-mean-order",
        "instruction",
        "the mean of K is summed in another order",
        "bits",
        Plant(contract={"centre_k": "mean"}),
        (on.K_OFFSET, on.GAUSSIAN),
    ),
    Fault(
        "zeros",
        "null kernel",
        "O and the gradients are 0",
        "o",
        _each(np.zeros_like, *TENSORS),
        (on.GAUSSIAN,),
    ),
    Fault(
        "negated",
        "null kernel",
        "O and the gradients have the wrong sign",
        "dk",
        _each(np.negative, *TENSORS),
        (on.GAUSSIAN,),
    ),
    Fault(
        "doubled",
        "null kernel",
        "O and the gradients are twice too large",
        "dv",
        _each(lambda x: x * np.float32(2), *TENSORS),
        (on.GAUSSIAN,),
    ),
    Fault(
        "one-sixteenth-more",
        "null kernel",
        "O and the gradients are a sixteenth too large",
        "o",
        _each(lambda x: x * np.float32(1.0625), *TENSORS),
        (on.GAUSSIAN,),
    ),
    Fault(
        "rotated-heads",
        "null kernel",
        "O and dQ of the next head",
        "o",
        _each(lambda x: np.roll(x, 1, axis=2), "o", "dq"),
        (on.GROUPED,),
    ),
    Fault(
        "nan-everywhere",
        "null kernel",
        "every output is NaN",
        "nan",
        _each(lambda x: np.full_like(x, np.nan), *TENSORS, "lse"),
        (on.GAUSSIAN,),
    ),
    Fault(
        "last-call",
        "null kernel",
        "the outputs of the call before",
        "o",
        LastCall,
        (on.GAUSSIAN, on.WIDE),
    ),
    Fault(
        "unrepeatable",
        "null kernel",
        "one bit of O depends on which call it is",
        "repeat",
        Forgetful,
        (on.GAUSSIAN,),
    ),
)
"""Faults of outputs, special values and instructions, and kernels that do nothing."""
