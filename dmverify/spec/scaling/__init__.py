"""Block scaling: tiles, scale rules, quantisation to E4M3, and key centring."""

from dmverify.spec.scaling.centring import centre, token_mean
from dmverify.spec.scaling.geometry import Tiling, amax, spread
from dmverify.spec.scaling.quantise import Quantised, quantise
from dmverify.spec.scaling.rules import SCALE_RULES, ScaleRule, fitting_exponent, get_rule

__all__ = [
    "SCALE_RULES",
    "Quantised",
    "ScaleRule",
    "Tiling",
    "amax",
    "centre",
    "fitting_exponent",
    "get_rule",
    "quantise",
    "spread",
    "token_mean",
]
