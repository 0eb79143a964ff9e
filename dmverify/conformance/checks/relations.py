"""Relations: how the answers to two questions hang together, whatever the answers are.

A relation makes a second question from a case and says where each number of its answer stands in
the first one's frame. Where the contract states every order the two agree in every bit; elsewhere
the second answer, moved back, lies within what the first question's contract allows.

| relation | second question | in the first one's frame |
|---|---|---|
| repeat-whole | the same | the same bits, whatever the contract |
| batch | one more batch entry, of other numbers | the first entries |
| heads | key heads with their groups in reverse | heads in reverse |
| power-v | V times 2^3 | O, dQ, dK, delta times 2^-3; LSE, dV |
| power-do | dO times 2^3 | dQ, dK, dV, delta times 2^-3; O, LSE |
| power-qk | Q times 2^3, K times 2^-3 | dQ times 2^-3, dK times 2^3; the rest |
| signs-qk | every second channel of Q and K negated | dQ, dK negated there; the rest |
| signs-v | every second channel of V and dO negated | O, dV negated there; the rest |
| future | other V from a late block on, causal | rows before that block; LSE, dV |
| poison | the same, in memory filled with NaN | the same |
| stream | the same, on another stream of the GPU | the same bits, whatever the contract |

Source: ``dmverify.proofs`` lemmas e4m3-equivariance, e4m3-odd, rn-equivariance, rescale-exact.
Not covered: inputs that are not finite; numbers so small or large that a power of two may round
(``SAFE``); permutations of keys or queries across blocks, which change every scale.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from dmverify.conformance.adapter import Unsupported
from dmverify.conformance.checks.bands import compare, element, hex_code
from dmverify.conformance.evidence import Evidence
from dmverify.conformance.verdict import Finding, Verdict
from dmverify.spec.case import F32, Case, Inputs, Outputs
from dmverify.spec.contracts import Contract
from dmverify.spec.enclosure import Band

FACTOR = np.float32(8.0)
SAFE = (2.0**-40, 2.0**40)  # magnitudes of inputs for which a factor of 8 rounds nothing
TINY = np.float32(2.0**-100)  # below it sums of tiny terms may round, however large the inputs
BLOCK = 128  # rows; a multiple of every block that shares a scale, and of a dS tile
NAMES = ("o", "lse", "dq", "dk", "dv", "delta")

Moved: TypeAlias = dict[str, F32]


@dataclass(frozen=True)
class Relation:
    """One row of the table above.

    Attributes:
        ask: The second question, or in words why this case has none.
        back: Its outputs in the frame of the first; a name that is left out is not compared.
        part: The part of one of the first question's arrays that is compared.
        holds: Why it does not hold under a contract, in words; empty where it holds.
        around: What is open while the kernel answers; a reason where that cannot be had.
        always_bits: Whether the bits agree whatever the contract.
        skip_tiny: Whether numbers below ``TINY`` are left out: powers of two move them into and out
            of the subnormal range.
    """

    ask: Callable[[Case], Case | str]
    back: Callable[[Case, Outputs], Moved]
    part: Callable[[Case, str, F32], F32] = lambda case, name, array: array
    holds: Callable[[Contract], str] = lambda contract: ""
    around: Callable[[], AbstractContextManager[object] | str] = nullcontext
    always_bits: bool = False
    skip_tiny: bool = False


def relation_check(check: str, evidence: Evidence) -> Finding:
    """Judges the relation of the check's own name."""
    relation, case = RELATIONS[check], evidence.case
    if not all(np.isfinite(array).all() for _, array in case.inputs.items()):
        return _unsupported(check, case, "the relation is one between finite numbers")
    question = relation.ask(case)
    if isinstance(question, str):
        return _unsupported(check, case, question)
    assert evidence.session is not None
    around = relation.around()
    if reason := relation.holds(evidence.contract) or (around if isinstance(around, str) else ""):
        return _unsupported(check, case, reason)
    if relation.around is not nullcontext and not evidence.in_process:
        return _unsupported(check, case, "the kernel computes in another process")
    assert not isinstance(around, str)
    with around:
        answer = evidence.session.ask(question)
    if isinstance(answer, Unsupported):
        if question is case:
            return _fails(check, case, 0, f"it has served this case, and now says: {answer.reason}")
        return _unsupported(check, case, answer.reason)
    moved = relation.back(case, answer)
    exact = relation.always_bits or evidence.contract.bit_exact
    return (_in_bits if exact else _in_bands)(check, evidence, relation, moved)


def _in_bits(check: str, evidence: Evidence, relation: Relation, moved: Moved) -> Finding:
    judged = 0
    for name, got in moved.items():
        due = relation.part(evidence.case, name, getattr(evidence.outputs, name))
        judged += due.size
        other = (got != due) & ~(np.isnan(got) & np.isnan(due)) & ~_left_out(relation, due)
        if other.any():
            at = tuple(int(i) for i in np.argwhere(other)[0])
            reason = (
                f"{name}{list(at)} = {hex_code(got[at])} after the change, {hex_code(due[at])} "
                f"before; {int(other.sum())} of {due.size} elements differ"
            )
            return _fails(check, evidence.case, judged, reason)
    return Finding(check, evidence.case.id, Verdict.CONFORMS, 0.0, judged=judged)


def _in_bands(check: str, evidence: Evidence, relation: Relation, moved: Moved) -> Finding:
    worst, judged, open_, bad = None, 0, 0, 0
    for name, got in moved.items():
        band = _part_of_band(evidence, relation, name)
        skip = _left_out(relation, band.mid)
        got = np.where(skip, np.float32(0), got)
        zero = {"mid": 0.0, "lo": 0.0, "hi": 0.0, "may_nan": False, "must_nan": False}
        band = replace(
            band, **{key: np.where(skip, value, getattr(band, key)) for key, value in zero.items()}
        )
        found = compare(got, band)
        judged, open_ = judged + got.size, open_ + int(found.open.sum())
        bad += int((found.margin > 1).sum())
        if got.size:
            at = np.unravel_index(int(np.argmax(found.margin)), got.shape)
            place = tuple(int(i) for i in at)
            here = element(name, got, band, place, float(found.margin[at]))
            worst = here if worst is None or here.margin > worst.margin else worst
    return Finding(
        check,
        evidence.case.id,
        Verdict.DOES_NOT if bad else Verdict.CONFORMS,
        margin=0.0 if worst is None else worst.margin,
        worst=worst,
        judged=judged,
        open=open_,
        reason=f"{bad} of {judged} elements leave their bound after the change" if bad else "",
    )


def _left_out(relation: Relation, due: np.typing.NDArray[Any]) -> np.typing.NDArray[np.bool_]:
    small = np.abs(due) < TINY if relation.skip_tiny else np.zeros(due.shape, dtype=bool)
    return np.asarray(small)


def _part_of_band(evidence: Evidence, relation: Relation, name: str) -> Band:
    band = evidence.bands[name]
    cut: dict[str, Any] = {
        field: relation.part(evidence.case, name, array) for field, array in vars(band).items()
    }
    return replace(band, **cut)


def _unsupported(check: str, case: Case, reason: str) -> Finding:
    return Finding(check, case.id, Verdict.UNSUPPORTED, reason=reason)


def _fails(check: str, case: Case, judged: int, reason: str) -> Finding:
    return Finding(check, case.id, Verdict.DOES_NOT, np.inf, judged=judged, reason=reason)


def _with(case: Case, **arrays: F32) -> Case:
    named = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return replace(case, inputs=replace(case.inputs, **named))


def _one_more(case: Case) -> Case:
    """A second entry with the tokens in reverse and negated, which is exact."""
    inputs = {
        name: np.concatenate([x, -x[:1, ::-1]]) if x.shape[0] else x
        for name, x in case.inputs.items()
    }
    problem = replace(case.problem, batch=inputs["q"].shape[0])
    return replace(case, problem=problem, inputs=Inputs(**inputs))


def _first_entries(case: Case, outputs: Outputs) -> Moved:
    return {name: array[: case.problem.batch] for name, array in outputs.items()}


def _reverse_heads(case: Case) -> Case | str:
    problem = case.problem
    if problem.kv_heads < 2:
        return "there is one key head"
    moved = {name: x[:, :, _heads(x.shape[2], problem.kv_heads)] for name, x in case.inputs.items()}
    return _with(case, **moved)


def _heads(count: int, kv_heads: int) -> np.typing.NDArray[np.int64]:
    return np.arange(count).reshape(kv_heads, -1)[::-1].reshape(-1)


def _heads_back(case: Case, outputs: Outputs) -> Moved:
    kv_heads = case.problem.kv_heads
    axis = {"lse": 1, "delta": 1}
    return {
        name: np.take(x, _heads(x.shape[axis.get(name, 2)], kv_heads), axis=axis.get(name, 2))
        for name, x in outputs.items()
    }


def _scaled(**factors: np.float32) -> Callable[[Case], Case | str]:
    def ask(case: Case) -> Case | str:
        for name, array in case.inputs.items():
            size = np.abs(array)
            if ((size > 0) & ((size < SAFE[0]) | (size > SAFE[1]))).any():
                return f"{name} holds numbers whose multiples may round"
        return _with(case, **{n: getattr(case.inputs, n) * f for n, f in factors.items()})

    return ask


def _unscaled(**factors: np.float32) -> Callable[[Case, Outputs], Moved]:
    def back(case: Case, outputs: Outputs) -> Moved:
        return {n: x * factors.get(n, np.float32(1)) for n, x in outputs.items()}

    return back


def _signs(head_dim: int) -> F32:
    return np.where(np.arange(head_dim) % 2, -1, 1).astype(np.float32)


def _negated(*names: str) -> Callable[[Case], Case]:
    def ask(case: Case) -> Case:
        signs = _signs(case.problem.head_dim)
        return _with(case, **{name: getattr(case.inputs, name) * signs for name in names})

    return ask


def _negated_back(*names: str) -> Callable[[Case, Outputs], Moved]:
    def back(case: Case, outputs: Outputs) -> Moved:
        signs = _signs(case.problem.head_dim)
        return {n: x * signs if n in names else x for n, x in outputs.items()}

    return back


def _other_future(case: Case) -> Case | str:
    if not case.problem.causal:
        return "every query sees every key"
    if not _rows_before(case):
        return "no block of rows lies wholly before another"
    first = _first_change(case)
    if not first:
        return "the rows before see no key, and their shifted delta is that of key 0, which changes"
    v = np.array(case.inputs.v)
    v[:, first:] = np.roll(v[:, first:], 1, axis=1) * np.float32(2)
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


def _past(case: Case, outputs: Outputs) -> Moved:
    found = {name: _before(case, name, array) for name, array in outputs.items()}
    del found["dk"]  # every key is seen by a row whose dP changed
    return found


def _no_fixed_scales(contract: Contract) -> str:
    fixed = "call-exponent" in (contract.ds_scale, contract.store)
    return "the contract's scales do not follow the data" if fixed else ""


def _own_blocks(contract: Contract) -> str:
    return "one scale is shared with the future" if contract.operand_form == "whole" else ""


def _poisoned() -> AbstractContextManager[object]:
    from dmverify.conformance.kernels.surroundings import poisoned

    return poisoned()


def _other_stream() -> AbstractContextManager[object] | str:
    from dmverify.conformance.kernels.surroundings import device_present, other_stream

    return other_stream() if device_present() else "there is no GPU here"


def _same(case: Case) -> Case:
    return case


def _as_it_is(case: Case, outputs: Outputs) -> Moved:
    return dict(outputs.items())


def _power(ask: dict[str, np.float32], back: dict[str, np.float32]) -> Relation:
    return Relation(_scaled(**ask), _unscaled(**back), holds=_no_fixed_scales, skip_tiny=True)


UP, DOWN = FACTOR, np.float32(1) / FACTOR

RELATIONS = {
    "repeat-whole": Relation(_same, _as_it_is, always_bits=True),
    "batch": Relation(_one_more, _first_entries),
    "heads": Relation(_reverse_heads, _heads_back),
    "power-v": _power({"v": UP}, {"o": DOWN, "dq": DOWN, "dk": DOWN, "delta": DOWN}),
    "power-do": _power({"do": UP}, {"dq": DOWN, "dk": DOWN, "dv": DOWN, "delta": DOWN}),
    "power-qk": _power({"q": UP, "k": DOWN}, {"dq": UP, "dk": DOWN}),
    "signs-qk": Relation(_negated("q", "k"), _negated_back("dq", "dk")),
    "signs-v": Relation(_negated("v", "do"), _negated_back("o", "dv")),
    "future": Relation(_other_future, _past, _before, holds=_own_blocks),
    "poison": Relation(_same, _as_it_is, around=_poisoned),
    "stream": Relation(_same, _as_it_is, around=_other_stream, always_bits=True),
}
"""By id of the check."""
