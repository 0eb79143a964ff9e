"""Who meets the premises of the theorems that bounds are tied to.

Each premise of a tied theorem has one entry, by the text in which ``statements.json`` has it, and
the test of this table fails for a premise without an entry and for an entry that refers to nothing.

| how | what meets it |
|---|---|
| row | a row of ``PREMISES``, evaluated on every case; where it fails the bound is infinite |
| code | a step of the specification, or a measure of the ledger, which makes it so |
| theorem | another theorem |
| meaning | it says what a name stands for, or that a size is none below 0 |

``code`` and ``meaning`` are for the reader: this is the part of the composition done by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from dmverify.proofs.every_tie import all_ties
from dmverify.proofs.met import Met
from dmverify.proofs.obligations_composed import COMPOSED
from dmverify.proofs.obligations_outputs import OUTPUTS
from dmverify.proofs.obligations_rows import ROWS
from dmverify.proofs.statements import get_statement

EVERYWHERE = (
    Met("row", "rn-error", "closed forms: no product of operands overflows"),
    Met("code", "spec.ledger.row_block:_defined", "the ledger: a row with an infinity has no term"),
)
"""What every theorem needs beside its own premises: that nothing overflows."""

_FLOATS = Met("code", "spec.arithmetic.floating:Single", "what a step reads is a binary32 number")
_LONG = Met("row", "sum-fma-chain", "fewer than 2^24 keys; the theorem has 2^22, or 2^12 channels")
_SUM = Met("row", "relative-inverse", "a sum errs by less than itself; the theorem has 1 / 4")
_SIZE = Met("meaning", "", "a size")
_SHARES = Met("meaning", "", "p_j is the exact share of an exponential: they sum to 1")
_LIST = Met("meaning", "", "the order is one of these very numbers")
_PASSES = Met("theorem", "two_passes", "lambda bounds what the two exponentials differ by")
_FLUSH = Met("code", "spec.ledger.bounds.softmax:_flushed", "what underflow takes of one key")
_SCALE = Met("code", "spec.scaling.rules:get_rule", "a scale is positive, made by few roundings")
_WITHIN = Met(
    "code", "spec.ledger.bounds.cast:_unsaturated", "elsewhere the bound is the number's own size"
)
_CODES = Met("theorem", "code_error_coded", "eps bounds a code's error in shares of the row")
_INSTRUCTION = Met(
    "code", "spec.ledger.bounds.tensor_core:_block", "the largest product and sum bound 2^E"
)

OBLIGATIONS: Mapping[str, Met] = MappingProxyType(
    {
        **COMPOSED,
        **OUTPUTS,
        **ROWS,
        "(terms_in_format t)": _FLOATS,
        "(terms_in_format (whole s))": _FLOATS,
        "(binary32 delta)": _FLOATS,
        "(binary32 lo)": _FLOATS,
        "(all_binary32 r)": _FLOATS,
        "(differences r)": Met("theorem", "rnd_plus_error", "dP and the shift are binary32"),
        "((height t) <= k)": Met(
            "code", "spec.ledger.bounds.magnitudes:_row_order", "the quad order's longest way"
        ),
        "((depth t) <= k)": Met(
            "code", "spec.ledger.bounds.magnitudes:_row_order", "the quad order's longest way"
        ),
        "(0 < r)": Met("code", "spec.ledger.row_block:_defined", "a row that sees a key"),
        "(forall e d, ((In (e, d) (keys t)) -> ((Rabs d) <= top)))": Met(
            "code", "spec.ledger.bounds.magnitudes:largest", "top is the largest |dP - shift|"
        ),
        "(0 <= top)": _SIZE,
        "(0 <= F)": _SIZE,
        "(0 <= V)": _SIZE,
        "(0 <= W)": _SIZE,
        "(0 < W)": _SIZE,
        "(0 <= r)": _SIZE,
        "(0 <= f)": _SIZE,
        "(0 <= x)": _SIZE,
        "(0 <= P)": _SIZE,
        "((0 <= rho) /\\ ((0 <= e) /\\ (0 <= g)))": _SIZE,
        "(forall (P P' d), ((In (P, P', d) l) -> (P = (rnd P'))))": Met(
            "meaning", "", "rec is defined where P is P' rounded once"
        ),
        "(0 < (B r))": Met("code", "spec.ledger.row_block:_defined", "a row that sees a key"),
        "((B r) <= n)": Met("theorem", "norm_coded", "each P is at most 1 and a rounding"),
        "((0 <= h) /\\ (h <= (/ 4)))": _SUM,
        "((n * u) <= (/ 4))": _LONG,
        "((n * u) <= (/ 3))": _LONG,
        "(((n * n) * u) <= 1)": _LONG,
        "((Rabs (b' - (B r))) <= (h * (B r)))": Met("theorem", "sum_any_tree", "h = (n - 1) u"),
        "((keys t) = (rounded r))": _LIST,
        "((keys t) = (pairs l))": _LIST,
        "(forall j, ((j < n) -> (0 <= (p j))))": _SHARES,
        "((Sum n p) = 1)": _SHARES,
        "(forall j, ((j < n) -> ((Rabs (theta j)) <= (lam j))))": _PASSES,
        "(forall j, ((j < n) -> ((Rabs (rho j)) <= q)))": Met(
            "code", "spec.ledger.bounds.softmax:quotient_roundings", "a division, or 1 / l and e r"
        ),
        "((0 <= s) /\\ (s < 1))": _SUM,
        "((Rabs sigma) <= s)": Met("theorem", "sum_any_tree", "or stated_sum, or dominated"),
        "(forall j, ((j < n) -> ((Rabs ((P j) - ((((p j) * (exp (theta j))) * (1 + (rho j))) "
        "/ (1 + sigma)))) <= f)))": _FLUSH,
        "(forall j, ((j < n) -> ((between (lam j) s q) < 1)))": _SUM,
        "(forall j, ((j < n) -> ((0 <= (p j)) /\\ ((0 <= (pi j)) /\\ ((pi j) < 1)))))": _SUM,
        "(forall j, ((j < n) -> ((Rabs ((P' j) - (p j))) <= (eps j))))": _CODES,
        "(forall j, ((j < n) -> ((Rabs ((P j) - (p j))) <= (((pi j) * (p j)) + f))))": Met(
            "theorem", "norm_coded", "pi is its `between`"
        ),
        "(forall j, ((j < n) -> ((0 <= (p j)) /\\ (((0 <= (pi j)) /\\ ((pi j) < 1)) /\\ "
        "((0 <= (w j)) /\\ (0 <= (eps j)))))))": _SUM,
        "(forall j, ((j < n) -> ((Rabs ((w j) - (p j))) <= (eps j))))": _CODES,
        "((Rabs nu') <= nu)": Met(
            "code", "spec.ledger.bounds.softmax:code_sum_error", "the sum of codes, its reciprocal"
        ),
        "((Sum n eps) < 1)": Met("row", "relative-inverse", "codes lose less than half of a row"),
        "(forall x s z o, ((In (x, s, z, o) l) -> ((0 < s) /\\ (((Rabs (z - (x / s))) <= "
        "((path 3) * (Rabs (x / s)))) /\\ ((Rabs z) <= 464)))))": _SCALE,
        "((Rabs (z - (x / s))) <= ((path 3) * (Rabs (x / s))))": _SCALE,
        "((Rabs (z - (x / s))) <= (u * (x / s)))": _SCALE,
        "(0 < s)": _SCALE,
        "((s * tiny) <= ((F * g) * (1 + u)))": _SCALE,
        "((Rabs z) <= 464)": Met("theorem", "quotient_range", "amax / 448 leaves 448 + 2^-15"),
        "(rounded_once F l)": Met("theorem", "rnd_error", "code times scale, rounded once"),
        "(rounded_once (V + W) l)": Met("theorem", "rnd_error", "code times scale, rounded once"),
        "(1 <= row)": Met(
            "code", "spec.attention.rows:exponentials", "the largest key adds exp(0) to l"
        ),
        "(fits steps)": _INSTRUCTION,
        "((Rabs c) <= m)": _INSTRUCTION,
        "(carried_fits W c steps)": Met("theorem", "least_norm", "X Y is at least 2^E"),
        "(at_most n steps)": Met("meaning", "", "an instruction has 32 products"),
        "(forall x, ((In x l) -> ((Rabs x) <= 448)))": _WITHIN,
        "(forall x d, ((In (x, d) l) -> ((binary32 x) /\\ (((Rabs x) <= 448) /\\ "
        "((Rabs ((s * x) - d)) <= ((path 4) * (Rabs d)))))))": _WITHIN,
        "(x <= (P * g))": Met("theorem", "share_from_backward", "g is 1 + inverse pi"),
        "(1 <= g)": Met("theorem", "share_from_backward", "g is 1 + inverse pi"),
        "(forall j, ((j < n) -> ((0 <= (p j)) /\\ (0 <= (below j)))))": _SHARES,
        "((Sum n (fun j, ((p j) * (below j)))) <= H)": Met("theorem", "entropy", "and log2 n + 1"),
        "(forall j, ((j < n) -> ((0 <= (p j)) /\\ (0 <= (P' j)))))": _SHARES,
        "(forall j, ((j < n) -> ((Rabs ((P' j) - (p j))) <= (rho * (p j)))))": Met(
            "code", "spec.bounds.columns:_rho", "the closed form of P; underflow stands beside it"
        ),
        "((Rabs ((Sum n P') - 1)) <= b)": Met("theorem", "norm_coded", "b is unit_sum"),
        "(forall j, ((j < n) -> ((Rabs ((d' j) - (d j))) <= e)))": Met(
            "theorem", "rounded_operands", "or carried_chain; e is the closed form of dP"
        ),
        "((Rabs (delta' - (Sum n (fun j, ((P' j) * (d' j)))))) <= "
        "(g * (Sum n (fun j, ((P' j) * (Rabs (d' j)))))))": Met(
            "theorem", "match_any_order", "g is n u and the roundings of 1 / l"
        ),
        "((Rabs (delta' - delta_exact)) <= D)": Met("theorem", "delta_reach", "D is its bound"),
    }
)
"""How each premise of a tied theorem is met."""


def premises() -> Iterator[tuple[str, str]]:
    """Theorem and premise, of every theorem that a bound is tied to."""
    for name in dict.fromkeys(tie.theorem for tie in all_ties()):
        for premise in get_statement(name).premises:
            yield name, premise
