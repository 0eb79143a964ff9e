"""The errors of the E4M3 cast, gap by gap: an account of them that knows no solver.

Every number up to 464 lies in one of 127 gaps between neighbouring values. Sources of the claims
that these sweeps repeat: the lemmas of ``e4m3``.
"""

from __future__ import annotations

from fractions import Fraction

from dmverify.proofs.exact import U, decode_e4m3, exponent_of, pow2
from dmverify.proofs.registry import Sweep

F = Fraction


def midpoints() -> list[tuple[Fraction, Fraction, Fraction]]:
    """Of each gap between neighbouring values: its middle, half its width, its lower value.

    Between a value and the middle of a gap the error rises faster than any bound on it here, so an
    error exceeds its bound somewhere in a gap if and only if it does next to the middle. Beyond the
    last value, 448, half a gap more reaches 464.
    """
    values = [F(decode_e4m3(code) or 0) for code in range(0x7F)]
    gaps = [
        ((low + high) / 2, (high - low) / 2, low)
        for low, high in zip(values, [*values[1:], F(480)], strict=True)
    ]
    return gaps


def sweep_error(c: Fraction) -> Sweep:
    """Every gap: its error against max(c |x|, 2^-10)."""
    bad = sum(half > max(c * middle, pow2(-10)) for middle, half, _ in midpoints())
    return Sweep(len(midpoints()), bad)


def sweep_absolute(c: Fraction) -> Sweep:
    """Every gap: its error against c."""
    return Sweep(len(midpoints()), sum(half > c for _, half, _ in midpoints()))


def sweep_tiny(c: Fraction) -> Sweep:
    """Every gap below 2^-6: its error against c."""
    gaps = [half for middle, half, _ in midpoints() if middle < pow2(-6)]
    return Sweep(len(gaps), sum(half > c for half in gaps))


def sweep_of_code(c: Fraction) -> Sweep:
    """Every gap from 2^-6 on: its error against c times the lower, smaller code."""
    gaps = [(half, low) for _, half, low in midpoints() if low >= pow2(-6)]
    return Sweep(len(gaps), sum(half > c * low for half, low in gaps))


def sweep_double_rounding(c: Fraction) -> Sweep:
    """Every gap: its error, of an fp32 quotient, against max(|y|/17, 2^-10) + c u |y|.

    A middle is an fp32 number, and what rounds to it takes the code with the even significand. So
    the worst is half a last place of the middle away from it, on the other code's side.
    """
    bad = 0
    for code, (middle, half, _) in enumerate(midpoints()):
        place = pow2(exponent_of(middle) - 24)
        y = middle - place if code % 2 else middle + place
        bad += half + place > max(y / 17, pow2(-10)) + c * U * y
    return Sweep(len(midpoints()), bad)
