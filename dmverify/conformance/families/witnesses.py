"""Numbers at which proofs' controls fail (``proofs/witnesses``), as elements of a case.

A witness satisfies its lemma and violates a statement slightly stronger, so it sits where a bound
is tight. Solvers choose all of a number's bits; here its significand is rounded to BF16's eight.

| variant | an element is | meets |
|---|---|---|
| codes | a significand times 2^-6 to 2^7, below a pin of 448 | the cast to E4M3, at scale 1 |
| magnitudes | V and dO: a significand times 2^-60 to 2^60 | scales, sums, stores |
| logits | Q and K: a significand times 2^-2 to 2^3 | products, exponentials, maxima |
"""

from __future__ import annotations

import numpy as np

from dmverify.conformance.families.draws import Draws
from dmverify.conformance.families.elementary import F64
from dmverify.conformance.families.family import Variant
from dmverify.conformance.families.rounding import PIN, PINNED
from dmverify.conformance.families.tensors import NAMES, as_inputs, gaussian
from dmverify.spec.case import Inputs
from dmverify.spec.problem import Problem

SIGNIFICANDS = (
    128, 129, 135, 136, 139, 144, 152, 158, 159, 160, 167, 168, 171, 177, 181,
    185, 188, 192, 208, 213, 224, 225, 228, 232, 236, 240, 244, 255,
)  # fmt: skip
"""Of every number of every witness, in units of 2^-7 of its binade; a test reads them again."""

WITNESSES = {
    "codes": Variant(
        {"tensors": NAMES, "binades": (-6, 8), "pinned": True}, {"softmax_scale": 2.0**-12}
    ),
    "magnitudes": Variant({"tensors": ("v", "do"), "binades": (-60, 61), "pinned": False}),
    "logits": Variant({"tensors": ("q", "k"), "binades": (-2, 4), "pinned": False}),
}


def witnessed(
    draws: Draws,
    problem: Problem,
    *,
    tensors: tuple[str, ...],
    binades: tuple[int, int],
    pinned: bool,
) -> Inputs:
    """Some tensors of such numbers with random signs, the others of normal ones."""
    made = gaussian(draws, problem)
    for name in tensors:
        made[name] = _drawn(draws, name, made[name].shape, binades)
        if pinned:
            made[name][..., tuple(PINNED.values())] = 0.0
            made[name][..., PINNED[name]] = PIN
    return as_inputs(made)


def _drawn(draws: Draws, name: str, shape: tuple[int, ...], binades: tuple[int, int]) -> F64:
    which = draws.integers(f"{name} number", shape, low=0, high=len(SIGNIFICANDS))
    low, high = binades
    binade = draws.integers(f"{name} binade", shape, low=low, high=high).astype(np.int64)
    numbers = np.array(SIGNIFICANDS, np.float64)[which.astype(np.int64)] / SIGNIFICANDS[0]
    return np.ldexp(numbers, binade) * draws.signs(f"{name} sign", shape)
