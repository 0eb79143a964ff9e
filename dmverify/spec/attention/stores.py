"""How outputs are stored: the format, and the power of two that a caller chose.

| word | O, dQ, dK and dV | beyond the largest number |
|---|---|---|
| bf16, fp16 | rounded once | infinity |
| fp32 | as they are | infinity |
| e4m3 | rounded once | saturates |
| call-exponent | E4M3 of x 2^k, k of the call | saturates |

LSE and delta are float32 whatever the word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention.num import Num, cast
from dmverify.spec.case import F32, F64
from dmverify.spec.contracts import Contract
from dmverify.spec.formats import BF16, E4M3, FP16, FP32, FloatFormat

STORED = ("o", "dq", "dk", "dv")
"""Outputs whose format the contract states; the others are float32."""
WIDE = ("bf16", "fp32")
"""Words of stores with float32's exponents: a power of two commutes with them."""


@dataclass(frozen=True)
class Store:
    """One row of the table.

    Attributes:
        fmt: The format.
        saturate: Whether what is beyond is its largest number.
        by_caller: Whether numbers are multiplied first with a power of two that the caller chose.
    """

    fmt: FloatFormat
    saturate: bool = False
    by_caller: bool = False

    def numbers(self, x: F32 | F64, exponent: int = 0) -> F32:
        """What float32 numbers are once they are stored, in units of x.

        Args:
            x: Any shape; of float64 its float32 numbers.
            exponent: The k of the call.
        """
        scaled = (x * 2.0**exponent).astype(np.float32)
        rounded = self.fmt.round(scaled, saturate=self.saturate)
        return np.asarray(rounded * np.float32(2.0**-exponent))


STORES: Mapping[str, Store] = MappingProxyType(
    {
        "bf16": Store(BF16),
        "fp16": Store(FP16),
        "fp32": Store(FP32),
        "e4m3": Store(E4M3, saturate=True),
        "call-exponent": Store(E4M3, saturate=True, by_caller=True),
    }
)
"""By the words of contracts."""


def store_of(contract: Contract, output: str) -> Store:
    """How an output of a contract is stored."""
    return STORES[contract.store] if output in STORED else STORES["fp32"]


def store_output(store: Store, exponents: Mapping[str, int], o32: Num) -> Num:
    """O as the backward reads it."""
    if store.fmt is FP32:
        return o32
    if not store.by_caller:
        return cast(o32, store.fmt, site="o", saturate=store.saturate)
    k = exponents.get("o", 0)
    return cast(o32 * 2.0**k, store.fmt, site="o", saturate=store.saturate) * 2.0**-k


def stored(
    a: Arithmetic, contract: Contract, name: str, x: F64, exponents: Mapping[str, int]
) -> F32:
    """An output as it is returned, rounded only if the ``o`` cast is on.

    Args:
        a: The interpretation.
        contract: Gives the store.
        name: Name of the output.
        x: What the steps give.
        exponents: Powers of two that the caller chose, by output.
    """
    if "o" not in a.casts:
        return x.astype(np.float32)
    return store_of(contract, name).numbers(x, exponents.get(name, 0))
