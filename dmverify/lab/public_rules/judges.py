"""The comparisons of the public rules, each of one output with its reference."""

from __future__ import annotations

import numpy as np

from dmverify.lab.public_rules.rule import Judge
from dmverify.spec.case import F64


def mean_square_below(limit: float) -> Judge:
    """Mean squared error below a limit, whatever the size of the output."""
    return lambda got, due, rough: bool(np.mean((got - due) ** 2) < limit)


def range_error_below(limit: float) -> Judge:
    """Root mean square error below a part of the range max - min that both tensors span."""

    def judge(got: F64, due: F64, rough: F64) -> bool:
        span = max(got.max(), due.max()) - min(got.min(), due.min())
        return bool(np.sqrt(np.mean((got - due) ** 2)) < limit * span)

    return judge


def close(*, atol: float, rtol: float) -> Judge:
    """Every element within atol + rtol |reference|."""
    return lambda got, due, rough: bool((np.abs(got - due) <= atol + rtol * np.abs(due)).all())


def as_close_as_rough(times: float) -> Judge:
    """The largest error at most so many times that of a low-precision reference."""
    return lambda got, due, rough: bool(
        np.abs(got - due).max() <= times * np.abs(rough - due).max()
    )


def similar(limit: float) -> Judge:
    """1 - 2 <x, y> / (<x, x> + <y, y>) below a limit; equal zeros are similar."""

    def judge(got: F64, due: F64, rough: F64) -> bool:
        size = (got * got).sum() + (due * due).sum()
        return bool(size == 0 or 1 - 2 * (got * due).sum() / size < limit)

    return judge


def noise_below(decibels: float) -> Judge:
    """Signal to noise above so many dB: |reference|^2 / |error|^2 > 10^(dB / 10)."""

    def judge(got: F64, due: F64, rough: F64) -> bool:
        noise = ((got - due) ** 2).sum()
        return bool(noise == 0 or (due * due).sum() > 10 ** (decibels / 10) * noise)

    return judge
