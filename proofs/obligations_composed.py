"""Who meets the premises of the theorems that put closed forms together: see ``obligations``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dmverify.proofs.met import Met

_SIZE = Met("meaning", "", "a size")

COMPOSED: Mapping[str, Met] = MappingProxyType(
    {
        "(j < n)": Met("meaning", "", "a key of the row"),
        "(forall i, ((i < n) -> ((Rabs ((x i) - (y i))) <= e)))": Met(
            "theorem", "fused_argument", "e is Errors.exponent, up to a row's common shift"
        ),
        "(0 <= a)": _SIZE,
        "(0 <= b)": _SIZE,
        "(0 <= c)": _SIZE,
        "(0 <= e)": _SIZE,
        "(0 <= z)": _SIZE,
        "(0 <= G)": _SIZE,
        "(0 <= K)": _SIZE,
        "(1 <= L)": Met("meaning", "", "1 and what weights may add"),
        "(forall j, ((j < n) -> ((Rabs (v j)) <= V)))": Met(
            "code", "spec.bounds.norms:measure", "norms are of the operands"
        ),
        "(forall j, ((j < n) -> ((Rabs (k j)) <= K)))": Met(
            "code", "spec.bounds.norms:measure", "norms are of the operands"
        ),
        "((Sum m (fun k, (Rabs (g k)))) <= s)": Met(
            "code", "spec.bounds.norms:measure", "do_one, and the codes' error"
        ),
        "((Sum m (fun k, (Rabs (dO k)))) <= s)": Met(
            "code", "spec.bounds.norms:measure", "do_one, and the codes' error"
        ),
        "(forall j k, ((j < n) -> ((k < m) -> (((Vb j k) = (Vf j k)) /\\ "
        "((Rabs (Vf j k)) <= V)))))": Met(
            "code", "spec.bounds.norms:measure", "both passes read one V"
        ),
        "(forall j, ((j < n) -> ((Rabs (d' j)) <= G)))": Met(
            "theorem", "cauchy_schwarz", "G is the product of two norms"
        ),
        "((Rabs delta') <= G)": Met("theorem", "cauchy_schwarz", "a mean of what G bounds"),
        "((Sum n (fun j, (Rabs ((P' j) - (p j))))) <= w)": Met(
            "theorem", "composed", "Errors.weights compounds what unit_sum, code_error_coded have"
        ),
        "((Sum n (fun j, (Rabs ((P j) - (p j))))) <= w)": Met(
            "theorem", "composed", "Errors.probability compounds exponent, sum and quotient"
        ),
        "((Sum n (fun j, (Rabs ((P j) - (P' j))))) <= w)": Met(
            "theorem", "prob_unrounded", "or prob_codes, for the norms of a call"
        ),
        "((Rabs (O32 - (Sum n (fun j, ((P' j) * (v j)))))) <= (a * (Sum n (fun "
        "j, ((Rabs (P' j)) * (Rabs (v j)))))))": Met(
            "theorem", "rounded_quotient", "or windows_output"
        ),
        "((Rabs (O - O32)) <= ((b * (Rabs O32)) + t))": Met(
            "theorem", "bf16_store", "a 257th is below 2^-8"
        ),
        "((Rabs (out - y)) <= ((b * (Rabs y)) + t))": Met(
            "theorem", "bf16_store", "a 257th is below 2^-8"
        ),
        "(forall k, ((k < m) -> (((Rabs ((o k) - (o' k))) <= e) /\\ ((Rabs (o' k)) <= V))))": Met(
            "theorem", "output_closed", "e is its bound; exact outputs are means of V"
        ),
        "((Rabs (delta - (Sum m (fun k, ((g k) * (o k)))))) <= (c * (Sum m "
        "(fun k, ((Rabs (g k)) * (Rabs (o k)))))))": Met(
            "theorem", "channel_dot", "underflow stands beside it"
        ),
        "(forall j, ((j < n) -> ((Rabs ((d j) - (d' j))) <= x)))": Met(
            "theorem", "rounded_operands", "or carried_chain; x is the closed form of dP"
        ),
        "((Rabs (delta - delta')) <= y)": Met(
            "theorem", "delta_closed", "or what P, dP and a sum over keys give"
        ),
        "(forall j, ((j < n) -> ((Rabs ((dS j) - ((P j) * ((d j) - delta)))) "
        "<= ((z * (Rabs ((P j) * ((d j) - delta)))) + f))))": Met(
            "theorem", "elem_error", "three roundings where a shift is subtracted"
        ),
        "((Sum n (fun j, (Rabs ((x j) - (x' j))))) <= E)": Met(
            "theorem", "row_closed", "and the cast, nearest_known or zero_sum_scaled"
        ),
        "((Sum n (fun j, (Rabs (x' j)))) <= S)": Met(
            "theorem", "cauchy_schwarz", "2 G: P sums to 1"
        ),
        "((Rabs (y - (c * (Sum n (fun j, ((x j) * (k j))))))) <= (a * (c * "
        "(Sum n (fun j, ((Rabs (x j)) * (Rabs (k j))))))))": Met(
            "theorem",
            "inner_any_order",
            "or carried_chain; and the roundings of operands and scale",
        ),
        "((Sum n (fun j, (Rabs (P j)))) <= L)": Met(
            "theorem", "norm_coded", "1 and unit_sum, below L"
        ),
        "((Sum n (fun j, (Rabs (P' j)))) <= L)": Met(
            "theorem", "composed", "1 and the weights' errors"
        ),
        "(forall j, ((j < n) -> (((Rabs (dP_exact m dO' Vb j)) <= G) /\\ "
        "((Rabs ((dP j) - (dP_exact m dO' Vb j))) <= x))))": Met(
            "theorem", "cauchy_schwarz", "and rounded_operands or carried_chain"
        ),
        "((Sum m (fun k, (Rabs ((dO' k) - (dO k))))) <= g)": Met(
            "theorem", "operand_cast", "summed over channels"
        ),
        "((Rabs (1 - (B_row n P))) <= nb)": Met("theorem", "norm_coded", "nb is unit_sum"),
        "((Rabs (elem n P dP dS delta)) <= e)": Met(
            "theorem", "elem_two_roundings", "e is the closed form of elem"
        ),
    }
)
"""How each premise of a tied theorem of ``Closed`` is met."""
