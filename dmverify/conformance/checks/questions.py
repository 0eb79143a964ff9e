"""Second questions: how one is made from a case, and where its numbers stand in the first's frame.

| question | made by | in the first one's frame |
|---|---|---|
| same | nothing | the same numbers |
| batch | strangers before and after the entries, and the last entry once more | entries, and the |
| | | last one's copy behind them |
| heads | key heads with their groups in reverse | heads in reverse |
| power-v | V times 2^3 | O, dQ, dK, delta times 2^-3; LSE, dV |
| power-do | dO times 2^3 | dQ, dK, dV, delta times 2^-3; O, LSE |
| power-qk | Q times 2^3, K times 2^-3 | dQ times 2^3, dK times 2^-3; the rest |
| signs-qk | every second channel of Q and K negated | dQ, dK negated there; the rest |
| signs-v | every second channel of V and dO negated | O, dV negated there; the rest |
| future | other V from a late block on, causal | rows before that block; LSE, dV |

A stranger is an entry's tokens in another order, negated and, where that rounds nothing, times 4:
it has other numbers, other scales and other row maxima than its neighbours. Of four entries, the
second follows a stranger and precedes one, and the last is an entry whose right answer is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from dmverify.spec.case import F32, Case, Inputs

FACTOR = np.float32(8.0)
UP, DOWN = FACTOR, np.float32(1) / FACTOR
SAFE = (2.0**-40, 2.0**40)  # magnitudes of inputs for which a factor of 8 rounds nothing
NEAR = (2.0**-20, 2.0**20)  # for which no product of all the factors does
STRANGERS = 3  # what is added to the entries of a batch
LARGEST = 2**23  # numbers of a tensor among them: a large case is not asked at four times its size
BLOCK = 128  # rows; a multiple of every block that shares a scale, and of a dS tile

Moved: TypeAlias = dict[str, F32]


@dataclass(frozen=True)
class Question:
    """One row of the table above.

    Attributes:
        ask: Makes the second question.
        back: Its outputs in the frame of the first; a name that is left out is not compared.
        part: The part of one of the first question's arrays that is compared.
        bars: Why a case has no such question, in words; empty where it has.
    """

    ask: Callable[[Case], Case] = lambda case: case
    back: Callable[[Case, Moved], Moved] = lambda case, moved: moved
    part: Callable[[Case, str, F32], F32] = lambda case, name, array: array
    bars: Callable[[Case], str] = lambda case: ""


def within(case: Case, ends: tuple[float, float]) -> bool:
    """Whether every input but 0 has a magnitude between the ends."""
    sizes = (np.abs(array) for _, array in case.inputs.items())
    return not any(((x > 0) & ((x < ends[0]) | (x > ends[1]))).any() for x in sizes)


def _with(case: Case, **arrays: F32) -> Case:
    named = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return replace(case, inputs=replace(case.inputs, **named))


def _other(case: Case) -> np.float32:
    """What makes other numbers of numbers without rounding them."""
    return np.float32(-4 if within(case, NEAR) else -1)


def _no_strangers(case: Case) -> str:
    batch = case.problem.batch
    if not batch:
        return "there is no batch entry"
    most = max(x.size for _, x in case.inputs.items()) // batch * (batch + STRANGERS)
    return f"a tensor among strangers would have {most} numbers" if most > LARGEST else ""


def _among_strangers(case: Case) -> Case:
    factor = _other(case)
    inputs = {
        name: np.concatenate([factor * x[:1, ::-1], x, factor * np.roll(x[-1:], 1, axis=1), x[-1:]])
        for name, x in case.inputs.items()
    }
    problem = replace(case.problem, batch=inputs["q"].shape[0])
    return replace(case, problem=problem, inputs=Inputs(**inputs))


def _entries(case: Case, moved: Moved) -> Moved:
    batch = case.problem.batch
    return {name: np.concatenate([x[1 : batch + 1], x[-1:]]) for name, x in moved.items()}


def _last_again(case: Case, name: str, array: F32) -> F32:
    return np.concatenate([array, array[-1:]])


def _one_key_head(case: Case) -> str:
    return "there is one key head" if case.problem.kv_heads < 2 else ""


def _reverse_heads(case: Case) -> Case:
    kv_heads = case.problem.kv_heads
    moved = {name: x[:, :, _heads(x.shape[2], kv_heads)] for name, x in case.inputs.items()}
    return _with(case, **moved)


def _heads(count: int, kv_heads: int) -> np.typing.NDArray[np.int64]:
    return np.arange(count).reshape(kv_heads, -1)[::-1].reshape(-1)


def _heads_back(case: Case, moved: Moved) -> Moved:
    axes = {"lse": 1, "delta": 1}
    return {
        name: np.take(x, _heads(x.shape[axis], case.problem.kv_heads), axis=axis)
        for name, x in moved.items()
        for axis in (axes.get(name, 2),)
    }


def _unsafe(case: Case) -> str:
    return "" if within(case, SAFE) else "an input holds numbers whose multiples may round"


def _power(ask: dict[str, np.float32], back: dict[str, np.float32]) -> Question:
    return Question(
        lambda case: _with(case, **{n: getattr(case.inputs, n) * f for n, f in ask.items()}),
        lambda case, moved: {n: x * back.get(n, np.float32(1)) for n, x in moved.items()},
        bars=_unsafe,
    )


def _negated(ask: tuple[str, ...], back: tuple[str, ...]) -> Question:
    def signs(case: Case) -> F32:
        return np.where(np.arange(case.problem.head_dim) % 2, -1, 1).astype(np.float32)

    return Question(
        lambda case: _with(case, **{n: getattr(case.inputs, n) * signs(case) for n in ask}),
        lambda case, moved: {n: x * signs(case) if n in back else x for n, x in moved.items()},
    )


def _no_future(case: Case) -> str:
    if not case.problem.causal:
        return "every query sees every key"
    if not _rows_before(case):
        return "no block of rows lies wholly before another"
    if not _first_change(case):
        return "the rows before see no key, and their shifted delta is that of key 0, which changes"
    return ""


def _other_future(case: Case) -> Case:
    first = _first_change(case)
    v = np.array(case.inputs.v)
    v[:, first:] = np.roll(v[:, first:], 1, axis=1) * _other(case)
    return _with(case, v=v)


def _first_change(case: Case) -> int:
    return (case.problem.keys - 1) // BLOCK * BLOCK


def _rows_before(case: Case) -> int:
    """Query rows, in whole blocks, that see no key from the change on."""
    problem = case.problem
    seen = _first_change(case) - (problem.keys - problem.queries)
    return max(min(seen, problem.queries), 0) // BLOCK * BLOCK


def _before(case: Case, name: str, array: F32) -> F32:
    rows = _rows_before(case)
    if name in ("o", "dq"):
        return array[:, :rows]
    return array[..., :rows] if name == "delta" else array


def _past(case: Case, moved: Moved) -> Moved:
    """The rows before the change, without dK: every key is seen by a row whose dP changed."""
    return {name: _before(case, name, x) for name, x in moved.items() if name != "dk"}


QUESTIONS = {
    "same": Question(),
    "batch": Question(_among_strangers, _entries, _last_again, bars=_no_strangers),
    "heads": Question(_reverse_heads, _heads_back, bars=_one_key_head),
    "power-v": _power({"v": UP}, {"o": DOWN, "dq": DOWN, "dk": DOWN, "delta": DOWN}),
    "power-do": _power({"do": UP}, {"dq": DOWN, "dk": DOWN, "dv": DOWN, "delta": DOWN}),
    "power-qk": _power({"q": UP, "k": DOWN}, {"dq": UP, "dk": DOWN}),
    "signs-qk": _negated(("q", "k"), ("dq", "dk")),
    "signs-v": _negated(("v", "do"), ("o", "dv")),
    "future": Question(_other_future, _past, _before, bars=_no_future),
}
"""By name."""
