"""Who meets the premises of the theorems of ``Composed``: see ``obligations``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dmverify.proofs.met import Met

_SIZE = Met("meaning", "", "a size")
_ROW = Met("code", "spec.ledger.row_block:_defined", "a row that sees a key")
_SUBTREES = Met("code", "spec.attention.rows:exponentials", "exponentials are not below 0")
_NORMS = Met("code", "spec.bounds.norms:measure", "norms are of the operands, code times scale")
_CODE = Met("theorem", "norm_of_codes", "row_of; what a subnormal scale leaves is tiny_row")
_CARRY = Met("theorem", "carry_grows", "16 keys of a chain: 16 and 16 times 2^-15")

OUTPUTS: Mapping[str, Met] = MappingProxyType(
    {
        "(not_negative t)": _SUBTREES,
        "(0 < (total t))": _ROW,
        "(0 < w)": Met("meaning", "", "an exponential over what its argument says"),
        "(e = ((exp arg) * w))": Met("meaning", "", "w is what the function makes of its argument"),
        "((Rabs (s - x)) <= (L * d))": Met(
            "theorem", "rounded_operands", "or carried_chain; and the scale's roundings"
        ),
        "((Rabs (arg - (s - b))) <= (u * (Rabs (s - b))))": Met(
            "theorem", "rnd_plus_error", "windows: fused_argument, ln 2 of an argument in base 2"
        ),
        "((Rabs (s - b)) <= (T * (1 + d)))": Met(
            "meaning", "", "two computed logits; windows: and 32 twice, for b - R and 8 of b"
        ),
        "((Rabs (ln w)) <= (k * (inverse F)))": Met(
            "theorem", "logarithm_of_an_error", "k calls, each within F of its argument's"
        ),
        "(0 < n)": _ROW,
        "(forall j, ((j < n) -> ((0 < (E j)) /\\ ((Rabs ((ln (E j)) - ((x j) - b))) <= e))))": Met(
            "theorem", "exponent_closed", "e is Errors.exponent; what is flushed stands beside it"
        ),
        "(0 < l)": _ROW,
        "((Rabs (ln (l / (Sum n E)))) <= s)": Met(
            "theorem", "logarithm_of_a_sum", "any order has at most n - 1 roundings on a way"
        ),
        "((Rabs (g - (ln l))) <= (c * (1 + (Rabs (ln l)))))": Met(
            "theorem", "lg2_worst", "lg2-error and lg2-near-one; base e: what a contract asks"
        ),
        "((Rabs (ln l)) <= (2 * T))": Met("theorem", "normaliser_range", "T is 1 + ln n"),
        "((Rabs (mu' - mu)) <= (z * M))": Met(
            "theorem", "channel_dot", "q times the mean of the keys, and its scale"
        ),
        "((Rabs (out - ((b + g) + mu'))) <= (k * (2 * (Z + 1))))": Met(
            "theorem", "lse_store", "and one more for the mean; Z is what LSE is at most"
        ),
        "((INR m) <= (r * r))": Met("meaning", "", "r is the root of the number of channels"),
        "(forall k, ((k < m) -> ((Rabs ((x k) - (y k))) <= ((e * (Rabs (y k))) + f))))": Met(
            "theorem", "operand_of_code", "code times scale, by the code"
        ),
        "(0 <= t)": _SIZE,
        "((norm2 m x') <= X)": _NORMS,
        "((norm2 m y') <= Y)": _NORMS,
        "((norm2 m (fun k, ((x k) - (x' k)))) <= ((r * X) + t))": _CODE,
        "((norm2 m (fun k, ((y k) - (y' k)))) <= ((s * Y) + t))": _CODE,
        "(0 <= q)": _SIZE,
        "((0 <= c) /\\ (c < 1))": Met("meaning", "", "elsewhere `inverse` is infinite"),
        "(0 <= nu)": _SIZE,
        "((Sum n e) = 1)": Met("meaning", "", "shares of the forward's exponentials"),
        "(forall j, ((j < n) -> (0 <= (w j))))": _SUBTREES,
        "(0 < (Sum n w))": _ROW,
        "((Sum n (fun j, (Rabs ((w j) - (e j))))) <= c)": Met(
            "theorem", "code_error_coded", "Errors.code, summed over groups"
        ),
        "((Sum n (fun j, (Rabs ((e j) - (p j))))) <= q)": Met(
            "theorem", "moved_share", "Errors.probability; between two passes, two_passes"
        ),
        "(forall j, ((j < n) -> ((P' j) = (((w j) * (1 + nu')) / (Sum n w)))))": Met(
            "meaning", "", "nu' is what the sum of codes and its reciprocal are off by"
        ),
        "(0 <= g)": _SIZE,
        "(0 <= h)": _SIZE,
        "(forall j, ((j < n) -> (((Rabs (d' j)) <= G) /\\ ((Rabs ((d j) - (d' j))) <= x))))": Met(
            "theorem", "cauchy_schwarz", "and rounded_operands or carried_chain"
        ),
        "((Rabs (delta - (Sum n (fun j, ((P j) * (d j)))))) <= ((g * (Sum n "
        "(fun j, ((Rabs (P j)) * (Rabs (d j)))))) + t))": Met(
            "theorem", "match_any_order", "or match_reciprocal"
        ),
        "((Rabs (out - delta)) <= (k * (G + x)))": Met(
            "meaning", "", "matched takes no shift off: out is delta"
        ),
        "(forall j, ((j < n) -> ((0 <= (p j)) /\\ (0 <= (P j)))))": _SUBTREES,
        "(0 < (Sum n P))": _ROW,
        "((Rabs d0) <= (G + x))": Met("meaning", "", "dP of a key, as dS has it"),
        "((Rabs ((Sum n (fun j, ((P j) * ((d j) - d0)))) - (lo * (Sum n P)))) <= "
        "(((((1 + g) * (1 + h)) - 1) * (Sum n (fun j, ((P j) * (Rabs ((d j) - d0)))))) "
        "+ (t * (Sum n P))))": Met(
            "theorem", "balance_shifted", "or balance_renormalized; h is (h' + u) / (1 - h')"
        ),
        "((Rabs (out - (d0 + lo))) <= (k * (3 * (G + x))))": Met(
            "theorem", "rnd_plus_error", "one rounding of d0 + lo, when it is reported"
        ),
        "((Rabs c) <= C)": _CARRY,
        "((Rabs (carried c x)) <= C)": _CARRY,
        "((Rabs ((rnd (x + c)) - (x + c))) <= r)": Met(
            "theorem", "half_place", "x + c is below 512"
        ),
        "((Rabs ((s * x) - d)) <= ((path 4) * (Rabs d)))": Met(
            "code", "spec.scaling.rules:get_rule", "a scale is positive, made by few roundings"
        ),
        "((0 <= a) /\\ (a < 1))": Met("meaning", "", "a 17th and u"),
        "((c 0) = 0)": Met("meaning", "", "a chain begins without a carry"),
        "(forall j, ((j < n) -> ((Rabs (c (S j))) <= ((a * ((Rabs (x j)) + (Rabs (c j)))) "
        "+ f))))": Met("theorem", "nearest_known", "a carry is the error of a code"),
        "(forall j, ((j < n) -> ((Rabs ((q j) - (x j))) <= (((Rabs (c (S j))) + (Rabs (c j))) "
        "+ (r * ((Rabs (x j)) + (Rabs (c j))))))))": Met(
            "theorem", "zero_sum_identity", "one key; and the roundings of its argument"
        ),
        "((Sum n (fun j, (Rabs (x j)))) <= X)": Met("theorem", "row_closed", "and 2 G"),
        "(0 <= L)": _SIZE,
        "(0 <= s)": _SIZE,
        "(0 <= t1)": _SIZE,
        "(0 <= t2)": _SIZE,
        "(forall k, ((k < m) -> (((Rabs ((O32 k) - (O_exact n P' Vf k))) <= ((a * (V * L)) "
        "+ t1)) /\\ ((Rabs ((O k) - (O32 k))) <= ((b * (Rabs (O32 k))) + t2)))))": Met(
            "theorem", "rounded_quotient", "or windows_output; and bf16_store"
        ),
        "((Rabs (delta - (Sum m (fun k, ((dO k) * (O k)))))) <= ((c * (Sum m "
        "(fun k, ((Rabs (dO k)) * (Rabs (O k)))))) + td))": Met(
            "theorem", "channel_dot", "td is its second term"
        ),
    }
)
"""How each premise of a tied theorem of ``Composed`` is met."""
