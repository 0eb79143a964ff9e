"""Least squares through the origin, with intervals that do not assume equal errors.

With X (n, k) and t (n,): b = (X'X)^-1 X't, residuals e, leverages h, and the HC3 covariance
(X'X)^-1 X' diag(e^2 / (1 - h)^2) X (X'X)^-1 (MacKinnon and White, J. Econometrics 29, 1985).
Intervals are ``Z`` standard errors either way: 99.9 % for normal errors. That of a correlation is
Fisher's: tanh(artanh r +- Z / sqrt(n - 3)). Not covered: an intercept; errors in X, which draw
slopes towards 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dmverify.spec.case import F64

Z = 3.29


@dataclass(frozen=True)
class Estimate:
    """A number with its interval."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """The larger of the two distances to the ends."""
        return max(self.high - self.value, self.value - self.low)

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def slopes(x: F64, t: F64) -> tuple[Estimate, ...]:
    """The coefficients of t on the columns of x.

    Args:
        x: (n, k), no column 0, n > k.
        t: (n,).

    Returns:
        One estimate a column; infinite intervals where the columns are dependent.
    """
    unit = np.sqrt((x**2).sum(0))
    scaled = x / unit
    gram = scaled.T @ scaled
    if np.linalg.cond(gram) > 1 / np.finfo(np.float64).eps ** 0.5:
        return tuple(Estimate(0.0, -math.inf, math.inf) for _ in range(x.shape[1]))
    inverse = np.linalg.inv(gram)
    b = inverse @ scaled.T @ t
    leverage = np.minimum(np.einsum("ij,jk,ik->i", scaled, inverse, scaled), 1 - 1e-9)
    error = (t - scaled @ b) / (1 - leverage)
    covariance = inverse @ (scaled.T * error**2) @ scaled @ inverse
    reach = Z * np.sqrt(np.diag(covariance))
    parts = zip(b / unit, reach / unit, strict=True)
    return tuple(Estimate(float(v), float(v - r), float(v + r)) for v, r in parts)


def correlation(x: F64, t: F64) -> Estimate:
    """Pearson's correlation of two (n,) arrays; 0 with the widest interval if either is constant.

    >>> correlation(np.arange(100.0), -np.arange(100.0)).value
    -1.0
    """
    dx, dt = x - x.mean(), t - t.mean()
    size = math.sqrt(float((dx**2).sum() * (dt**2).sum()))
    if size == 0 or len(x) < 5:
        return Estimate(0.0, -1.0, 1.0)
    r = round(float(np.clip((dx * dt).sum() / size, -1, 1)), 12)
    middle, reach = math.atanh(min(max(r, -1 + 1e-12), 1 - 1e-12)), Z / math.sqrt(len(x) - 3)
    return Estimate(r, math.tanh(middle - reach), math.tanh(middle + reach))
