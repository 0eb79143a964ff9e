"""The constants of every bound, each with the lemma or certificate that states it.

A bound takes its constants from this table and from nowhere else. ``source`` is the id of a lemma
(proved) or of a certificate (measured, exhaustive over 2^32 inputs); both are run by
``dmverify prove``. The value is ``unit`` times the constant that the lemma is about, which a test
compares, so a constant cannot drift away from its proof. Values are exact; ``float(value)`` where
float64 will do. Three sources are no lemmas:

| source | what it marks |
|---|---|
| definition | what a format, an instruction or a contract is by definition |
| steps | counted in the specification's steps: roundings on a path, lanes and folds of an order |
| evaluation | slack for evaluating a bound in float64 |

Not covered: sizes that a contract or a problem carries as data (tiles, windows, head dims).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from dmverify.errors import UnknownNameError

F = Fraction
DEFINITION, STEPS, EVALUATION = "definition", "steps", "evaluation"


@dataclass(frozen=True)
class Constant:
    """One row of the table.

    Attributes:
        name: What bounds call it.
        value: Its exact value.
        source: Lemma or certificate id, or one of the three words above.
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
    _row("LONGEST_CHAIN", 1, _pow2(24), "sum-fma-chain", "terms of a sum that may be subnormal"),
    _row("WHOLE", 1, 1, "relative-inverse", "what a relative error stays below"),
    _row(
        "UNDERFLOW_ERROR",
        _pow2(-150),
        1,
        "rn-error-subnormal",
        "absolute error of a rounded product",
    ),
    _row("FLUSH", 1, _pow2(-126), "flush-to-zero", "absolute error of flushing a result"),
    _row("FP32_BITS", 24, 1, DEFINITION, "significant bits of fp32"),
    _row("FP32_SMALLEST_NORMAL", _pow2(-126), 1, DEFINITION, "smallest normal fp32"),
    _row("FP32_RANGE", _pow2(127), 1, DEFINITION, "sizes whose sums and products stay finite"),
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
    # Block scales
    _row("SCALED_MAX", 448 + _pow2(-15), 1, "scale-divide-range", "largest amax / RN(amax / 448)"),
    _row(
        "SCALE_DENORMAL", F(7, 4), _pow2(-118), "scale-denormal", "smallest amax of a normal scale"
    ),
    _row("SUBNORMAL_CAST", F(7, 4), _pow2(-116), "scale-denormal", "change of an element there"),
    _row("SCALED_TINY_MAX", 671, 1, "scale-tiny-overshoot", "largest input under a denormal scale"),
    # Zero-sum cast
    _row("CARRY", 16, 1, "carry-clamped", "largest carry of a clamped chain"),
    _row("CARRY_GROWTH", 1, _pow2(-15), "carry-unclamped", "its growth per step without a clamp"),
    _row("CAST_SHIFT", 32 + _pow2(-16), 1, "cast-perturbation", "a chain's change of one element"),
    # Tensor core
    _row("K32", 32, 1, DEFINITION, "products of one FP8 wgmma"),
    _row(
        "ACC_TRUNCATION",
        _pow2(-13),
        1,
        "wgmma-final-truncation",
        "relative loss of a truncated sum",
    ),
    _row("ORDER_FREE", _pow2(-13), 1, "wgmma-order-free", "loss per instruction over B"),
    _row("RHO_CHAINED", 32, 1, "wgmma-rho-chained", "alignment loss in q, a C of 14 bits"),
    _row("ALIGN_SLACK_BITS", 7, 1, "wgmma-window", "products this far below E lose nothing"),
    _row("SURELY_EXACT", _pow2(-6), 1, "wgmma-large-exact", "products this large, over 2^E, too"),
    _row("PRODUCT_FRACTION", 1, _pow2(-6), "wgmma-alignment-loss", "a product's last bit over 2^e"),
    _row("EXACT_DOT_LENGTH", _pow2(17), 1, "exact-dot-float64", "float64 dots of codes are exact"),
    # Softmax
    _row("RESCALE_THRESHOLD", 32, 1, "stale-maximum", "exponent above the running reference"),
    _row("EXACT_EXPONENT", _pow2(24), 1, "window-argument", "references below this are exact"),
    _row("WINDOW_RESIDUE", _pow2(24), _pow2(-25), "window-argument", "largest exponent minus 8"),
    _row("SMALL_RESIDUE", _pow2(-5), 1, "max-argument", "up to this the largest code is 256"),
    _row("LEAST_WINDOW_CODE", 176, 1, "window-code", "least largest code of a window"),
    _row("EXP2_CHORD", F(1387, 2000), 1, "exp2-chord", "|2^t - 1| over |t|, |t| <= 2^-10"),
    _row("EX2", F(1459, 10**10), 1, "ex2-error", "relative error of ex2.approx.ftz"),
    _row("LG2_ABSOLUTE", F(2153, 10**10), 1, "lg2-near-one", "absolute error of lg2 on [1/2, 2)"),
    _row("LG2_RELATIVE", F(2293, 10**10), 1, "lg2-error", "relative error of lg2 elsewhere"),
    # exp and log of contracts in base e: what the contract assumes of the kernel's functions
    _row("EXP", 1, _pow2(-22), DEFINITION, "relative error of exp: two units of fp32"),
    _row("EXP_ABSOLUTE", 1, _pow2(-148), DEFINITION, "error of a subnormal exp: two quanta"),
    _row("EXP_VANISHES", 104, 1, DEFINITION, "exp(-x) is 0 beyond this"),
    _row("LOG", 1, _pow2(-22), DEFINITION, "relative error of log, absolute near 1"),
    # What the steps themselves state
    _row("P_MAX_EXPONENT", 8, 1, DEFINITION, "2 to it is the largest e of a window"),
    _row("NORM_STEP", _pow2(-16), 1, DEFINITION, "what the steps raise a computed norm by"),
    _row("NORM_SLACK", _pow2(-15), 1, STEPS, "more than a norm exceeds the exact one by"),
    _row("LEAST_LEVEL", _pow2(-100), 1, DEFINITION, "smallest level of a tile's gradient"),
    _row("LARGEST_LEVEL", _pow2(120), 1, DEFINITION, "largest level of a tile's gradient"),
    _row("LEAST_AMAX", _pow2(-100), 1, DEFINITION, "amax below this has this one's scale"),
    # BF16
    _row("BF16_BITS", 8, 1, DEFINITION, "significant bits of BF16"),
    _row("BF16_RELATIVE", _pow2(-8), 1, "bf16-store", "relative error of a BF16 store"),
    _row("BF16_ABSOLUTE", _pow2(-134), 1, "bf16-store-tiny", "error of a BF16 store below 2^-126"),
    _row(
        "BF16_OVERFLOW", 2 - _pow2(-8), _pow2(127), "bf16-overflow", "stores as infinity from here"
    ),
    # float64 evaluation of the bounds
    _row("CLOSED_FORM_OPERATIONS", 256, 1, EVALUATION, "float64 operations on a path, at most"),
    _row("FLOAT64_FUNCTION", _pow2(-45), 1, EVALUATION, "more than numpy's error of exp and log"),
    _row("LOG_LARGEST", 709, 1, EVALUATION, "exp of it is a float64"),
    # Enclosures in the free form: one running reference stands for all (see ``Enclosure``)
    _row("REFERENCE_SMALL", _pow2(-90), 1, DEFINITION, "results that another reference underflows"),
    _row("REFERENCE_QUANTUM", _pow2(-116), 1, DEFINITION, "what that underflow may take"),
    _row("REFERENCE_REACH", 66, 1, DEFINITION, "more than references differ by"),
    _row("REFERENCE_NEAR", 4, 1, DEFINITION, "an integer reference is known to less than this"),
    _row("TWO_U64", _pow2(-52), 1, EVALUATION, "twice the unit roundoff of float64"),
    _row("OPERATIONS_OF_A_TERM", 4, 1, EVALUATION, "float64 operations a summand passes, at most"),
    _row("FLOAT64_SMALLEST_NORMAL", _pow2(-1022), 1, EVALUATION, "smallest normal float64"),
    # Contracts with an online softmax: what they leave open
    _row("BF16_STEP", 16, 1, DEFINITION, "products of one BF16 tensor core step"),
    _row("BF16_STEP_LOSS", 3, 1, STEPS, "what such a step takes from sum and C, in U of the sizes"),
    _row("RESCALE_GROWTH", 1 + _pow2(-4), 1, STEPS, "more than roundings raise a partial sum by"),
    _row("OPEN_ROUNDINGS", 8, 1, STEPS, "of a dot besides its sum: scales, rescale, store"),
    _row("LEAST_TILE", 32, 1, DEFINITION, "keys of a tile, at least"),
    _row("OPEN_ARGUMENT", 9, _pow2(-24), STEPS, "error of an exponent over its operands' sizes"),
    _row("OPEN_EXPONENTIAL", 2, _pow2(-22), STEPS, "error of a rescale and an exponential"),
    _row("OPEN_BF16", _pow2(-8), 1 + _pow2(-4), "bf16-store", "P's cast under another maximum"),
    _row("OPEN_E4M3", F(1, 17), 1 + _pow2(-18), "e4m3-error", "the same in E4M3"),
    _row("OPEN_UNIT", 4, _pow2(-24), STEPS, "roundings of 1 / f, of products with it, of a sum's"),
    _row("OPEN_QUOTIENT", 16, _pow2(-24), STEPS, "error of O's reciprocal and scales"),
    _row("OPEN_LSE", 8, _pow2(-24), STEPS, "error of an LSE in any base, over its sizes"),
    _row("OPEN_EXPANDED", 4, _pow2(-24), STEPS, "error of P dP - P delta over its sizes"),
    # Orders of summation
    _row("QUAD_CHAIN", 8, 1, STEPS, "keys of a window that one chain of the quad order sums"),
    _row("QUAD_LANES", 2, 1, STEPS, "additions that combine four lanes"),
    _row("CHANNEL_LANES", 32, 1, STEPS, "lanes of a dot over channels"),
    _row("CHANNEL_FOLDS", 5, 1, STEPS, "additions that combine 32 lanes"),
    _row("CHAIN_STEPS", 8, 1, STEPS, "groups of eight keys in a tile of the zero-sum cast"),
    _row("CHAIN_LANES", 4, 1, STEPS, "chains of a row in a tile"),
    _row("CHAIN_PARITIES", 2, 1, STEPS, "neighbouring keys of a chain in a group"),
    # Roundings on a path
    _row("CAST_ROUNDINGS", 3, 1, STEPS, "before a code: of the scale, its inverse, the product"),
    _row("RECIPROCAL_MAX", 4, 1, STEPS, "more than 1 / l: the sum of a row is above 1/4"),
    _row("RECIPROCAL_ROUNDINGS", 4, 1, STEPS, "e to e r to P, and again from the other side"),
    _row("QUOTIENT_ROUNDINGS", 3, 1, STEPS, "of 1 / l, of the product, of a step of l"),
    _row("QUOTIENT_FACTOR", 3, 1, STEPS, "how often a quotient of sums repeats their error"),
    _row("QUOTIENT_UNDERFLOWS", 4, 1, STEPS, "numerator, denominator, division, product"),
    _row("CENTRED_UNDERFLOWS", 4, 1, STEPS, "delta in units, shift in units, two differences"),
    _row("OUTPUT_ROUNDINGS", 4, 1, STEPS, "of O besides its sum: operands, quotient, product"),
    _row("GRADIENT_ROUNDINGS", 4, 1, STEPS, "of a gradient besides its sum: operands, scale"),
    _row("DOT_ROUNDINGS", 4, 1, STEPS, "of a row's dot besides its sum: factors, 1 / l"),
    _row("LSE_ROUNDINGS", 4, 1, STEPS, "of an LSE: sum, constant, product, mean of k"),
    _row("SHIFT_ROUNDINGS", 3, 1, STEPS, "of shift + delta: product, difference, quotient"),
    _row("ELEM_ROUNDINGS", 3, 1, STEPS, "of dS: product with the shift, difference, product"),
    _row("CARRIED_ROUNDINGS", 6, 1, STEPS, "of a carried element: its cast, and twice the carry"),
    _row("EX2_CALLS", 3, 1, STEPS, "forward's e, backward's e, window's weight"),
    _row("PRODUCT_UNDERFLOWS", 16, 1, STEPS, "of a product, its operands, its sum, times 1 / l"),
    _row("OWN_UNDERFLOWS", 2, 1, STEPS, "of a share rounded twice: its code, its quotient"),
    _row("LEVEL_FACTOR", 4, 1, STEPS, "G, shift and delta over G, and up to a power of two"),
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
            name,
            rule="a bound's constant is a row of the table",
            fix=f"name one of {sorted(CONSTANTS)}",
        )
    return CONSTANTS[name].value
