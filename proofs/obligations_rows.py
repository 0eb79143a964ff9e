"""Who meets the premises of the theorems on whole rows: see ``obligations``.

Most of them are the kernel's steps themselves, one predicate a step (``rocq/Shares``,
``rocq/EndToEnd``), which a test evaluates on a run. n counts the keys that a row sees: a masked key
has e = 0 and adds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dmverify.proofs.met import Met

_SOFTMAX = Met(
    "code", "spec.attention.rows:share", "e is binary32, exp(0) = 1 among it; P is rnd (e / l)"
)
_OUTPUT = Met("code", "spec.attention.rows:forward", "O32 is a dot of code times scale, divided")
_ELEMENT = Met("code", "spec.attention.rows:backward", "dS = rnd (P rnd (dP - delta))")
_DOT = Met("code", "spec.attention.sums:AnyOrder", "an fp32 dot in some order, rounded or fused")
_DELTA = Met("code", "spec.attention.delta:DELTA_RULES", "what the mode's delta is a dot of")
_LONG = Met("row", "sum-fma-chain", "fewer than 2^24 keys; the theorem has 2^22, or 2^12 channels")
_CODES = Met("meaning", "", "codes of exponentials, under positive scales")
_TWICE = Met("theorem", "rounded_twice", "k is path 2, f is 2 eta")
_SIZE = Met("meaning", "", "a size")
_NORMS = Met("code", "spec.bounds.norms:measure", "norms are of the operands")
_ACC = Met("theorem", "rounded_quotient", "a, and beside it a0; for the store bf16_store, b0")
_DOTS = Met("theorem", "channel_dot", "c, and beside it c0")
_DP = Met("theorem", "rounded_operands", "x, and beside it x0; G by cauchy_schwarz")
_SUM = Met("row", "relative-inverse", "a sum of P errs by less than itself; the theorem has 1 / 4")

ROWS: Mapping[str, Met] = MappingProxyType(
    {
        "(softmax n e l P)": _SOFTMAX,
        "(softmax n e l E)": _SOFTMAX,
        "(coded n e head w)": Met(
            "code", "spec.attention.rows:encode", "by amax / 448 of a group; subnormal: by hand"
        ),
        "(gradient m dO dO' scale z)": Met(
            "theorem", "division_is_argument", "or a product with the inverse, rounded twice before"
        ),
        "(products n m dO' V dP)": Met(
            "code", "spec.attention.rows:probabilities", "dP is a dot of code times scale, rounded"
        ),
        "(outputs n m w V l O32)": _OUTPUT,
        "(outputs n m w V row O32)": _OUTPUT,
        "(stored m O32 O)": Met("code", "spec.attention.stores:store_output", "rounded to BF16"),
        "(dot_of m dO O delta)": _DELTA,
        "(dot_of m (fun k, (rnd (dO' k))) O delta)": _DELTA,
        "(dot_of m (fun k, (rnd (dO' k))) O32 delta)": _DELTA,
        "(dot_of n P dP delta)": _DELTA,
        "(dot_of n P dP a)": _DOT,
        "(dot_of n P (fun j, (rnd ((dP j) - shift))) a)": _DOT,
        "(sum_of n (fun j, (rnd (w j))) row)": Met(
            "code", "spec.attention.rows:forward", "the sum of code times scale"
        ),
        "(elements n P dP delta dS)": _ELEMENT,
        "(elements n P dP (rnd (a / b)) dS)": _ELEMENT,
        "(elements n P (fun j, (rnd ((dP j) - shift))) (rnd (a / b)) dS)": _ELEMENT,
        "(forall j, ((j < n) -> ((P j) = (rnd ((rnd (w j)) / row)))))": Met(
            "code", "spec.attention.rows:probabilities", "the forward's own share"
        ),
        "(binary32 shift)": Met("code", "spec.attention.delta:DELTA_RULES", "dP at a key"),
        "((Rabs (l - (Sum n e))) <= (s * (Sum n e)))": Met(
            "theorem", "sum_any_tree", "s = (n - 1) u; or dominated"
        ),
        "((Rabs (b - (Sum n P))) <= (h * (Sum n P)))": Met(
            "theorem", "sum_any_tree", "h = (n - 1) u; or dominated"
        ),
        "((0 <= s) /\\ (s <= (/ 4)))": _SUM,
        "(((INR n) * u) <= (/ 4))": _LONG,
        "((((INR m) * (INR m)) * u) <= 1)": _LONG,
        "((Sum n (coded_error P head s)) < 1)": Met(
            "row", "relative-inverse", "codes lose less than half of a row"
        ),
        "(nearest_codes n dS scale codes)": Met(
            "code", "spec.attention.rows:cast_tiles", "dS / scale, rounded, at most 448 + 2^-15"
        ),
        "(forall j, ((j < n) -> (0 <= (w j))))": _CODES,
        "(0 < (Sum n w))": _CODES,
        "(0 < D)": Met("meaning", "", "l, or the exact sum of the exponentials"),
        "(forall i, ((i < n) -> (((e i) / D) <= (((P i) + eta) * "
        "(1 + (inverse (share_error s)))))))": Met(
            "theorem", "share_above", "P and what its roundings and its underflow take"
        ),
        "(0 <= nu)": _SIZE,
        "(0 <= k)": _SIZE,
        "(0 <= Vb)": _SIZE,
        "(0 <= (x + x0))": _SIZE,
        "(0 <= a0)": _SIZE,
        "(0 <= b0)": _SIZE,
        "(0 <= c0)": _SIZE,
        "(forall j k, ((j < n) -> ((k < m) -> ((Rabs (V j k)) <= Vb))))": _NORMS,
        "((Sum m (fun k, (Rabs (dO' k)))) <= s)": _NORMS,
        "((Rabs delta) <= (s * (Vb * L)))": Met(
            "meaning", "", "delta is a dot of dO and what O is at most"
        ),
        "(forall j, ((j < n) -> (((Rabs (dP_exact m dO' V j)) <= G) /\\ "
        "((Rabs ((dP j) - (dP_exact m dO' V j))) <= (x + x0)))))": _DP,
        "(forall j, ((j < n) -> ((Rabs ((dP j) - (dP_exact m dO' V j))) <= (x + x0))))": _DP,
        "(forall k, ((k < m) -> (((Rabs ((O32 k) - (O_exact n P' V k))) <= ((a * (Vb * L)) + "
        "(a0 * L))) /\\ ((Rabs ((O k) - (O32 k))) <= ((b * (Vb * L)) + b0)))))": _ACC,
        "(forall k, ((k < m) -> ((Rabs ((O32 k) - (O_exact n P' V k))) <= ((a * (Vb * L)) + "
        "(a0 * L)))))": _ACC,
        "((Rabs (delta - (Sum m (fun k, ((dO k) * (O k)))))) <= ((c * (s * (Vb * L))) + "
        "(c0 * L)))": _DOTS,
        "((Rabs (delta - (Sum m (fun k, ((dO' k) * (O k)))))) <= ((c * (s * (Vb * L))) + "
        "(c0 * L)))": _DOTS,
        "((Rabs (delta - (Sum m (fun k, ((dO' k) * (O32 k)))))) <= ((c * (s * (Vb * L))) + "
        "(c0 * L)))": _DOTS,
        "(forall j, ((j < n) -> ((Rabs ((P j) - (P' j))) <= ((k * (Rabs (P' j))) + f))))": _TWICE,
        "(forall j, ((j < n) -> ((Rabs ((P j) - (((w j) * (1 + nu')) / (Sum n w)))) <= "
        "((k * (Rabs (((w j) * (1 + nu')) / (Sum n w)))) + f))))": _TWICE,
        "((Rabs (Sum n dS)) <= before)": Met("theorem", "stale_row", "or that of another delta"),
        "(carried_chains c)": Met(
            "code", "spec.attention.casts:zero_sum", "dS / scale, rounded, at most 448 + 2^-15"
        ),
        "(Permutation (row_of c) (numbers n dS))": Met(
            "code", "spec.attention.casts:zero_sum", "each key is in one chain of its tile"
        ),
    }
)
"""How each premise of a theorem on whole rows is met."""
