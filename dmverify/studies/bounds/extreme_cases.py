"""Cases at the ends of what a call may hold: for bounds that must hold there, or say they do not.

A case is drawn from its number and a seed alone. It has a contract (base, delta mode, cast and
normaliser), a small shape, often with rows that see no key, and for each tensor a kind of values:

    normal      N(0, 1) times a power of two from 2^-30 to 2^30
    far         the same from 2^-133 (subnormal) to 2^120
    spread      each number with a power of its own
    dyadic      small integers: ties in every cast
    sparse      mostly zeros
    alike       one number everywhere, but for a few
    zero        zeros

The softmax scale is the default, or what makes the largest logit a number from 1e-3 to 1e30.
Inputs are finite. Not covered: lengths beyond two windows and a bit.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from dmverify.spec.case import F32, Case, Inputs
from dmverify.spec.contracts import CONTRACTS, DELTAS, DS_CASTS, Contract, get_contract
from dmverify.spec.formats import BF16
from dmverify.spec.ledger.bounds.derived import is_derived
from dmverify.spec.problem import Problem

SHAPES = ((1, 1), (1, 64), (3, 70), (9, 3), (17, 40), (2, 130), (70, 5), (66, 66), (33, 2))
FAR = (-133, 120)
NEAR = (-30, 30)
LOGITS = (1e-3, 1e30)
Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal(shape) * 2.0 ** rng.integers(*NEAR)


def _far(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal(shape) * 2.0 ** rng.integers(*FAR)


def _spread(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal(shape) * 2.0 ** rng.integers(*NEAR, shape)


def _dyadic(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(-17, 18, shape) * 2.0 ** rng.integers(*NEAR)


def _sparse(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return _normal(rng, shape) * (rng.random(shape) < 1 / 8)


def _alike(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    few = rng.random(shape) < 1 / 64
    return np.where(few, _normal(rng, shape), rng.standard_normal() * 2.0 ** rng.integers(*NEAR))


def _zero(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.zeros(shape)


KINDS: dict[str, Draw] = {
    "normal": _normal,
    "far": _far,
    "spread": _spread,
    "dyadic": _dyadic,
    "sparse": _sparse,
    "alike": _alike,
    "zero": _zero,
}
CHANCES = (0.4, 0.15, 0.1, 0.12, 0.1, 0.1, 0.03)


def contracts() -> tuple[Contract, ...]:
    """Every contract that has bounds, in every mode, cast and normaliser."""
    bases = [name for name, c in CONTRACTS.items() if is_derived(c)]
    return tuple(
        get_contract(base, delta=mode, ds_cast=ds_cast, normaliser=normaliser)
        for base, mode, ds_cast, normaliser in product(
            bases, DELTAS, DS_CASTS, ("unrounded", "codes")
        )
        if mode != "associated" or normaliser == "codes"
    )


def extreme_case(number: int, *, seed: int = 0) -> tuple[Case, Contract]:
    """The case of a number; contracts and shapes in turn."""
    rng = np.random.default_rng((seed, number))
    stated = contracts()
    contract = stated[number % len(stated)]
    queries, keys = SHAPES[(number // len(stated)) % len(SHAPES)]
    shape = Problem(1, 1, 1, queries, keys, 32, causal=bool(rng.integers(2)))
    chosen = {name: str(rng.choice(list(KINDS), p=CHANCES)) for name in ("q", "k", "v", "do")}
    inputs = Inputs(**{name: _drawn(rng, shape, name, kind) for name, kind in chosen.items()})
    problem = Problem(
        1, 1, 1, queries, keys, 32, causal=shape.causal, softmax_scale=_scale(rng, inputs)
    )
    kinds = "-".join(chosen.values())
    return Case(f"extreme/{kinds}@{number}", contract.name, problem, inputs), contract


def _drawn(rng: np.random.Generator, problem: Problem, name: str, kind: str) -> F32:
    values = KINDS[kind](rng, problem.shapes()[name])
    return np.asarray(BF16.round(values.astype(np.float32), saturate=True))


def _scale(rng: np.random.Generator, inputs: Inputs) -> float | None:
    """None, or what gives the largest logit its size; either sign, a finite float32."""
    if rng.random() < 1 / 4:
        return None
    rows = [x.astype(np.float64).reshape(-1, x.shape[-1]) for x in (inputs.q, inputs.k)]
    reach = float(np.prod([np.linalg.norm(x, axis=1).max(initial=0.0) for x in rows]))
    wanted = float(np.exp(rng.uniform(*np.log(LOGITS))))
    largest = float(np.finfo(np.float32).max)
    size = min(max(wanted / reach if reach > 0 else 1.0, 2.0**-126), largest)
    return float(np.float32(size)) * (-1.0 if rng.random() < 1 / 4 else 1.0)
