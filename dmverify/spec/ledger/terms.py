"""The terms of the residual R_i, the exact sum over keys of the fp32 numbers dS_ij.

Notation: a hat is a dequantised operand; P, dP, delta, dS as the dS step has them; d = dP - shift
(shift is 0 except in the shifted mode); P~ = weight x normaliser is the forward's effective
probability; V^f and V^b the forward's and the backward's V^ (the same, if one rounding serves
both); dO' the gradient that the delta pass reads (dO as it came in when stale, else dO^); O32 the
output before its store; dP* = <dO^_i, V^b_j>; A = sum_j P d and B = sum_j P, exact.

    prob    sum_j (P - P~) dP*                    grad    sum_j P~ <dO^ - dO', V^f_j>
    acc     -(<dO', O32> - sum_j P~ <dO', V^f_j>) out     -<dO', O - O32>
    dot     -(delta - <dO', O>)                   norm    delta (1 - B)
    accdP   sum_j P (dP - dP*)                    elem    sum_j (dS - P (d - delta))
    vmis    sum_j P~ <dO^, V^b_j - V^f_j>         cast    sum_j (dS^ - dS)
    match   A - delta                             balance A - delta B
    match'  A' - delta                            rec     A - A'

    R(stale)        = prob + grad + acc + out + dot + norm + accdP + elem + vmis
    R(consistent)   = prob        + acc + out + dot + norm + accdP + elem + vmis
    R(associated)   = prob        + acc       + dot + norm + accdP + elem + vmis
    R(matched)      = match + norm + elem
    R(renormalized) = R(shifted) = balance + elem

and R + cast is the row sum after the cast, in every mode.

Proof. R = elem + A - delta B by the definition of elem. A - delta B = (A - delta) + delta (1 - B)
gives matched. With A' = sum_j P' d' of the numbers that the delta pass presented, A - delta =
rec + match'. For the first three modes shift = 0, and
    A = accdP + sum_j P dP* = accdP + prob + vmis + sum_j P~ <dO^, V^f_j>,
    sum_j P~ <dO^, V^f_j> = grad + sum_j P~ <dO', V^f_j> = grad + acc + <dO', O32>
                          = grad + acc + out + <dO', O> = grad + acc + out + dot + delta
(grad is 0 where dO' is dO^). In associated delta reads O32 itself, so O is O32 in dot and out is 0.
Every step adds and subtracts the same number, so the sum is exact for any numbers whatever: the
equality tests the bookkeeping, and a kernel is judged by each term's own bound (``bounds``).

Sources: Tang et al., arXiv 2609.37852, eq. 2 (prob and grad); the other terms are this project's.
Not covered: the residual of dK's column sums, which weights these rows with q.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from types import MappingProxyType

from dmverify.spec.contracts.deltas import DELTA_MODES, DeltaMode
from dmverify.spec.ledger.dyadic import Product, exact_dot, exact_matmul, exact_sum
from dmverify.spec.ledger.row_block import RowBlock
from dmverify.spec.ledger.rows import Rows


def _terms(mode: DeltaMode) -> tuple[str, ...]:
    if mode.quotient:
        return "balance", "elem"
    if not mode.from_output:
        return "match", "norm", "elem"
    grad, out = ("grad",) * mode.reads_input, ("out",) * mode.reads_stored
    return "prob", *grad, "acc", *out, "dot", "norm", "accdP", "elem", "vmis"


TERMS_OF_MODE = MappingProxyType({name: _terms(mode) for name, mode in DELTA_MODES.items()})
"""The terms that sum to R in each delta mode."""


def term_names(mode: str, *, presented: bool) -> tuple[str, ...]:
    """The terms that sum to R, with rec where the delta pass presents numbers of its own."""
    extra = ("rec",) if presented and "match" in TERMS_OF_MODE[mode] else ()
    return TERMS_OF_MODE[mode] + extra


class ExactSums:
    """The exact sums that the definitions share, each formed once, a number a row."""

    def __init__(self, block: RowBlock) -> None:
        self.block = block

    @cached_property
    def residual(self) -> Rows:
        """R = sum_j dS."""
        return exact_sum(self.block.ds)

    @cached_property
    def a(self) -> Rows:
        """A = sum_j P (dP - shift)."""
        return exact_dot(self.block.p, self.block.dp) - self.shift * self.b

    @cached_property
    def a_presented(self) -> Rows:
        """A' = sum_j P' (dP' - shift)."""
        if not self.block.presented:
            return self.a
        p, dp = self.block.p_presented, self.block.dp_presented
        return exact_dot(p, dp) - self.shift * exact_sum(p)

    @cached_property
    def b(self) -> Rows:
        """B = sum_j P."""
        return exact_sum(self.block.p)

    @cached_property
    def delta(self) -> Rows:
        """What dS subtracts after the shift."""
        return exact_sum(self.block.delta[:, None])

    @cached_property
    def shift(self) -> Rows:
        """What dS subtracts first."""
        return exact_sum(self.block.shift[:, None])

    @cached_property
    def normaliser(self) -> Rows:
        """What the forward's weights are multiplied by to give P~."""
        norm = exact_sum(self.block.norm[:, None])
        return norm.inverse() if self.block.norm_divides else norm

    @cached_property
    def dp_exact(self) -> Product:
        """dP* = <dO^_i, V^b_j>."""
        return exact_matmul(self.block.do, self.block.v)

    @cached_property
    def dp_forward(self) -> Product:
        """<dO^_i, V^f_j>."""
        if self.block.one_v:
            return self.dp_exact
        return exact_matmul(self.block.do, self.block.v_forward)

    @cached_property
    def dp_read(self) -> Product:
        """<dO'_i, V^f_j>."""
        if not self.block.contract.delta_mode.reads_input:
            return self.dp_forward
        return exact_matmul(self.block.do_read, self.block.v_forward)

    @cached_property
    def p_dp_exact(self) -> Rows:
        """sum_j P dP*."""
        return exact_dot(self.block.p, self.dp_exact)

    @cached_property
    def forward_exact(self) -> Rows:
        """sum_j P~ dP*."""
        return exact_dot(self.block.weights, self.dp_exact) * self.normaliser

    @cached_property
    def forward_own(self) -> Rows:
        """sum_j P~ <dO^, V^f_j>."""
        if self.dp_forward is self.dp_exact:
            return self.forward_exact
        return exact_dot(self.block.weights, self.dp_forward) * self.normaliser

    @cached_property
    def forward_read(self) -> Rows:
        """sum_j P~ <dO', V^f_j>."""
        if self.dp_read is self.dp_forward:
            return self.forward_own
        return exact_dot(self.block.weights, self.dp_read) * self.normaliser

    @cached_property
    def do_o32(self) -> Rows:
        """<dO', O32>."""
        return exact_dot(self.block.do_read, self.block.o32)

    @cached_property
    def do_o(self) -> Rows:
        """<dO', O> for the O that delta reads."""
        if self.block.contract.delta_mode.reads_unstored:
            return self.do_o32
        return exact_dot(self.block.do_read, self.block.o)


TERMS: MappingProxyType[str, Callable[[ExactSums], Rows]] = MappingProxyType(
    {
        "prob": lambda s: s.p_dp_exact - s.forward_exact,
        "grad": lambda s: s.forward_own - s.forward_read,
        "acc": lambda s: s.forward_read - s.do_o32,
        "out": lambda s: s.do_o32 - s.do_o,
        "dot": lambda s: s.do_o - s.delta,
        "norm": lambda s: s.delta - s.delta * s.b,
        "accdP": lambda s: exact_dot(s.block.p, s.block.dp) - s.p_dp_exact,
        "elem": lambda s: s.residual - s.a + s.delta * s.b,
        "vmis": lambda s: s.forward_exact - s.forward_own,
        "match": lambda s: s.a_presented - s.delta,
        "rec": lambda s: s.a - s.a_presented,
        "balance": lambda s: s.a - s.delta * s.b,
        "cast": lambda s: exact_sum(s.block.ds_cast) - s.residual,
    }
)
"""Every term by name, from the exact sums."""
