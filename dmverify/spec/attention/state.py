"""What the steps leave for later steps, for the outputs and for the ledger.

M rows of queries, N keys, D channels. A row of scores is (M, N), and by windows (M, W, L).
"""

from __future__ import annotations

from dataclasses import dataclass

from dmverify.spec.attention.num import Flags, Num
from dmverify.spec.attention.operands import BlockScaled


@dataclass(frozen=True)
class Scores:
    """Step 1: S = Q K^T before the softmax.

    Attributes:
        acc: Accumulators, (M, N) or (M, W, L).
        scale: acc * scale is the logit, in base e or, by windows, in base 2; (M, 1) or (M, W, 1).
        seen: Who sees whom, known beforehand, in the shape of ``acc``.
        live: Rows that see a key, or one of the window, in the shape of ``scale``.
        logits: acc * scale, rounded; None by windows, where it is part of an fma.
    """

    acc: Num
    scale: Num
    seen: Flags
    live: Flags
    logits: Num | None = None


@dataclass(frozen=True)
class ForwardPass:
    """Steps 1 to 6.

    Attributes:
        o: Output as the backward reads it, (M, D).
        o32: Output before its store, (M, D).
        lse: Natural logarithm of the row sum, (M, 1); meaningless on rows that see no key.
        scores: Step 1.
        b: What e is relative to: a row's maximum (M, 1), or that of each window (M, W, 1).
        reference: What the backward takes P relative to, in the shape of ``scores.scale`` or 1.
        l: Sum of the unrounded e relative to ``reference``, 1 on rows that see no key, (M, 1).
        norm: What O was divided by or multiplied with, (M, 1).
        divides: Whether it was divided by it.
        p: The forward's P: codes (M, G, g) and what they are multiplied with.
        betas: Weight of each window, (M, W, 1); 1 where a row is whole.
        live: Rows that see a key, (M, 1).
        e: Exponentials relative to ``reference``, if the forward formed these.
    """

    o: Num
    o32: Num
    lse: Num
    scores: Scores
    b: Num
    reference: Num
    l: Num  # noqa: E741 - the field's symbol
    norm: Num
    p: BlockScaled
    betas: Num
    live: Flags
    divides: bool = True
    e: Num | None = None


@dataclass(frozen=True)
class Row:
    """Step 7: P and dP, each with what it still lacks.

    Attributes:
        p: P / ``p_scale``, in the shape of the scores.
        p_scale: (M, 1) or 1.
        acc: Accumulators of dP, in the shape of the scores.
        scale: acc * scale is dP, in the shape of the scores' scale or 1.
    """

    p: Num
    p_scale: Num
    acc: Num
    scale: Num

    @property
    def dp(self) -> Num:
        """dP, rounded."""
        return self.acc * self.scale


@dataclass(frozen=True)
class Cast:
    """Step 10: P and dS around their cast.

    Attributes:
        p: P in its format, (M, N) or in tiles (M, G, tile).
        ds: dS in its format.
        p_before: P as the dS step saw it, in units of ``p_unit``.
        p_unit: (M, G, 1) or 1.
        ds_before: dS before the cast, in units of ``ds_unit``.
        ds_unit: (M, G, 1) or 1.
    """

    p: BlockScaled
    ds: BlockScaled
    p_before: Num
    p_unit: Num
    ds_before: Num
    ds_unit: Num


@dataclass(frozen=True)
class BackwardPass:
    """Steps 7 to 11, and of step 11 what stays in the row: dQ, (M, D)."""

    dq: Num
    row: Row
    shift: Num
    delta: Num
    cast: Cast
