"""The constants of every bound, each with the lemma or certificate that states it.

A bound takes its constants from this table and from nowhere else. ``source`` is the id of a lemma
(proved) or of a certificate (measured, exhaustive over 2^32 inputs); both are run by
``dmverify prove``. The value is ``unit`` times the constant that the lemma is about, which a test
compares, so a constant cannot drift away from its proof. "definition" marks what a format or an
instruction is by definition. Values are exact; ``float(value)`` where float64 will do.

Not covered: counts that follow from a contract's geometry (chain lengths, lanes, tile sizes).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from dmverify.errors import UnknownNameError

F = Fraction
DEFINITION = "definition"


@dataclass(frozen=True)
class Constant:
    """One row of the table.

    Attributes:
        name: What bounds call it.
        value: Its exact value.
        source: Lemma or certificate id, or "definition".
        unit: What the source's own constant is multiplied with.
        meaning: What it bounds.
    """

    name: str
    value: Fraction
    source: str
    unit: Fraction
    meaning: str


def _row(
    name: str, own: Fraction | int, unit: Fraction | int, source: str, meaning: str
) -> Constant:
    return Constant(name, F(own) * F(unit), source, F(unit), meaning)


def _pow2(exponent: int) -> Fraction:
    return F(2) ** exponent


_ROWS = (
    # fp32
    _row("U", 1, _pow2(-24), "rn-error", "relative error of an fp32 rounding"),
    _row("ETA", _pow2(-150), 1, "rn-error-subnormal", "absolute error of a rounded product"),
    _row("FLUSH", 1, _pow2(-126), "flush-to-zero", "absolute error of flushing a result"),
    _row("ADD_EXACT_BELOW", _pow2(-125), 1, "add-no-underflow", "sums this small are exact"),
    _row("FP32_BITS", 24, 1, DEFINITION, "significant bits of fp32"),
    _row("FP32_SMALLEST_NORMAL", _pow2(-126), 1, DEFINITION, "smallest normal fp32"),
    _row("FLUSHED_SUM_LENGTH", _pow2(24), 1, DEFINITION, "longest sum of sum-flush-to-zero"),
    _row("DIRECTED", 2, _pow2(-24), "sum-directed", "relative error of a directed rounding"),
    # E4M3
    _row("E4M3_MAX", 448, 1, "e4m3-grid", "largest E4M3 value"),
    _row("E4M3_UNSATURATED", 464, 1, "e4m3-saturation", "saturation changes nothing up to here"),
    _row("E4M3_SMALLEST_NORMAL", _pow2(-6), 1, "e4m3-equivariance", "smallest normal E4M3"),
    _row("E4M3_RELATIVE", F(1, 17), 1, "e4m3-error", "cast error over the input"),
    _row("E4M3_OF_CODE", F(1, 16), 1, "e4m3-error-of-code", "cast error over a normal code"),
    _row("E4M3_HALF_UNIT", F(1, 16), 1, "e4m3-half-unit", "cast error over a code's binade"),
    _row("E4M3_ABSOLUTE", _pow2(-10), 1, "e4m3-error-tiny", "cast error below 2^-6"),
    _row("E4M3_ERROR_MAX", 16, 1, "e4m3-error-absolute", "cast error up to 464"),
    _row("E4M3_TWICE", 1, _pow2(-24), "e4m3-double-rounding", "more when an fp32 quotient is cast"),
    _row(
        "CAST_SET_TWO_CODES", F(1, 16), 1, "cast-set-width", "relative width of two codes at most"
    ),
    # Block scales
    _row("SCALED_MAX", 448 + _pow2(-15), 1, "scale-divide-range", "largest amax / RN(amax / 448)"),
    _row("SCALED_MAX_INVERSE", 448 + _pow2(-15), 1, "scale-inverse-range", "amax RN(448 / amax)"),
    _row("SCALE_ZERO", 7, _pow2(-144), "scale-zero", "largest amax whose scale is zero"),
    _row(
        "SCALE_DENORMAL", F(7, 4), _pow2(-118), "scale-denormal", "smallest amax of a normal scale"
    ),
    _row("SCALED_TINY_MAX", 671, 1, "scale-tiny-overshoot", "largest input under a denormal scale"),
    # Zero-sum cast
    _row("CARRY", 16, 1, "carry-clamped", "largest carry of a clamped chain"),
    _row("CARRY_GROWTH", 1, _pow2(-15), "carry-unclamped", "its growth per step without a clamp"),
    _row("CARRY_EXACT", _pow2(30), 1, "carry-exact", "the carry is exact up to this input"),
    _row("CAST_SHIFT", 32 + _pow2(-16), 1, "cast-perturbation", "a chain's change of one element"),
    # Tensor core
    _row("K32", 32, 1, DEFINITION, "products of one FP8 wgmma"),
    _row(
        "TENSOR_CORE", _pow2(-13), 1, "wgmma-final-truncation", "relative loss of a truncated sum"
    ),
    _row("ORDER_FREE", _pow2(-13), 1, "wgmma-order-free", "loss per instruction over B"),
    _row("WINDOW", 7, 1, "wgmma-window", "products this far below E lose nothing"),
    _row("SURELY_EXACT", _pow2(-6), 1, "wgmma-large-exact", "products this large, over 2^E, too"),
    _row("PRODUCT_FRACTION", 1, _pow2(-6), "wgmma-alignment-loss", "a product's last bit over 2^e"),
    _row("RHO_WIDE", 33, 1, "wgmma-rho-wide", "alignment loss in q, any fp32 C"),
    _row("RHO_CHAINED", 32, 1, "wgmma-rho-chained", "alignment loss in q, a C of 14 bits"),
    _row("C_LOSS", _pow2(-13), 1, "wgmma-c-loss", "relative loss of an fp32 C on entry"),
    _row("EXACT_DOT_LENGTH", _pow2(17), 1, "exact-dot-float64", "float64 dots of codes are exact"),
    # Softmax
    _row("SOFTMAX_CONSTANT", F(5, 4), _pow2(-24), "softmax-constant", "error of scale log2 e"),
    _row("MAX_RESIDUE", _pow2(-5), 1, "max-argument", "residue of the row maximum's exponent"),
    _row("REFERENCE_LAG", 32, 1, "stale-maximum", "exponent above the running reference"),
    _row("EXP2_CHORD", F(1387, 2000), 1, "exp2-chord", "|2^t - 1| over |t|, |t| <= 2^-10"),
    _row("RECIPROCAL", 1, _pow2(-24), "reciprocal", "|RN(1/l) l - 1|"),
    _row("LSE_STORE", F(17, 8), _pow2(-24), "lse-store", "relative error of (M + g) ln 2"),
    _row("EX2", F(1459, 10**10), 1, "ex2-error", "relative error of ex2.approx.ftz"),
    _row("LG2_ABSOLUTE", F(2153, 10**10), 1, "lg2-near-one", "absolute error of lg2 on [1/2, 2)"),
    _row("LG2_RELATIVE", F(2293, 10**10), 1, "lg2-error", "relative error of lg2 elsewhere"),
    _row("RCP_APPROX", F(983, 10**10), 1, "rcp-error", "relative error of rcp.approx.ftz"),
    # exp and log of contracts in base e: what the contract assumes of the kernel's functions
    _row("EXP", 1, _pow2(-22), DEFINITION, "relative error of exp: two units of fp32"),
    _row("EXP_ABSOLUTE", 1, _pow2(-148), DEFINITION, "error of a subnormal exp: two quanta"),
    _row("EXP_VANISHES", 104, 1, DEFINITION, "exp(-x) is 0 beyond this"),
    _row("LOG", 1, _pow2(-22), DEFINITION, "relative error of log, absolute near 1"),
    # What the steps themselves state
    _row("WINDOW_TOP", 256, 1, DEFINITION, "largest e of a window"),
    _row("NORM_SLACK", _pow2(-15), 1, DEFINITION, "more than the steps raise a norm by"),
    _row("LEAST_LEVEL", _pow2(-100), 1, DEFINITION, "smallest level of a tile's gradient"),
    # BF16
    _row("BF16_BITS", 8, 1, DEFINITION, "significant bits of BF16"),
    _row("BF16_RELATIVE", _pow2(-8), 1, "bf16-store", "relative error of a BF16 store"),
    _row("BF16_ABSOLUTE", _pow2(-134), 1, "bf16-store-tiny", "error of a BF16 store below 2^-126"),
    _row(
        "BF16_OVERFLOW", 2 - _pow2(-8), _pow2(127), "bf16-overflow", "stores as infinity from here"
    ),
    # float64 evaluation of the bounds
    _row("CLOSED_FORM_OPERATIONS", 256, 1, DEFINITION, "float64 operations on a path, at most"),
    _row("FLOAT64_FUNCTION", _pow2(-45), 1, DEFINITION, "more than numpy's error of exp and log"),
    # Enclosures in the free form: one running reference stands for all (see ``Enclosure``)
    _row("REFERENCE_SMALL", _pow2(-90), 1, DEFINITION, "results that another reference underflows"),
    _row("REFERENCE_QUANTUM", _pow2(-116), 1, DEFINITION, "what that underflow may take"),
    _row("REFERENCE_REACH", 66, 1, DEFINITION, "more than references differ by"),
    _row("OUTWARD", _pow2(-52), 1, DEFINITION, "twice the unit roundoff of float64"),
)

CONSTANTS = MappingProxyType({row.name: row for row in _ROWS})


def constant(name: str) -> Fraction:
    """Exact value of a constant.

    Raises:
        UnknownNameError: There is no such constant.

    >>> float(constant("E4M3_RELATIVE")) == 1 / 17
    True
    """
    if name not in CONSTANTS:
        raise UnknownNameError(
            name, rule="a bound's constant is a row of the table", fix=f"one of {sorted(CONSTANTS)}"
        )
    return CONSTANTS[name].value
