"""Checks of form and special values: formats, NaN, dead rows, repetition, bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dmverify.conformance.checks.bands import beyond_store, follows
from dmverify.conformance.checks.hull import hull
from dmverify.conformance.checks.judgement import plain_judgement_of
from dmverify.conformance.checks.margins import Flags, hex_code, other_bits
from dmverify.conformance.evidence import Evidence
from dmverify.conformance.verdict import Element, Finding, Verdict
from dmverify.spec.attention.stores import STORED, store_of
from dmverify.spec.case import F32
from dmverify.spec.formats import BF16


def format_check(check: str, evidence: Evidence) -> Finding:
    """O and the gradients hold numbers of the format that they are stored in."""
    judged = 0
    for name, array in evidence.outputs.items():
        if name not in STORED:
            continue
        judged += array.size
        store = store_of(evidence.contract, name)
        wide = beyond_store(store, array)
        if wide.any():
            at = tuple(int(i) for i in np.argwhere(wide)[0])
            said = BF16.name if store.by_caller else store.fmt.name
            reason = f"{name}{list(at)} = {hex_code(array[at])} is no {said} number"
            return replace(_fails(check, evidence, judged, reason), pattern=hull(name, wide))
    return _holds(check, evidence, judged)


def nan_check(check: str, evidence: Evidence) -> Finding:
    """NaN where every conforming kernel gives NaN, and nowhere that none does."""
    judged = sum(array.size for _, array in evidence.outputs.items())
    wrong = {
        name: plain_judgement_of(evidence, name).wrong_nan for name, _ in evidence.outputs.items()
    }
    name = next((name for name, flags in wrong.items() if flags.any()), None)
    if name is None:
        return _holds(check, evidence, judged)
    at = tuple(int(i) for i in np.argwhere(wrong[name])[0])
    got, count = getattr(evidence.outputs, name)[at], int(wrong[name].sum())
    said = "a number is due" if np.isnan(got) else "NaN is due"
    found = _fails(
        check, evidence, judged, f"{name}{list(at)} = {got} where {said} ({count} elements)"
    )
    return replace(found, pattern=hull(name, wrong[name]), follows=follows(evidence, wrong))


def dead_row_check(check: str, evidence: Evidence) -> Finding:
    """Queries that see no key: O = 0, LSE = -inf, dQ = 0; keys that no query sees: dK = dV = 0."""
    if not all(np.isfinite(array).all() for _, array in evidence.case.inputs.items()):
        return _holds(check, evidence, 0)  # a dense kernel multiplies a hidden NaN by 0
    outputs, seen = evidence.outputs, evidence.case.problem.mask()
    rows: Flags = np.logical_not(seen.any(axis=1))
    columns: Flags = np.logical_not(seen.any(axis=0))
    due: tuple[tuple[str, Flags, float], ...] = (
        ("o", rows[:, None, None], 0.0),
        ("dq", rows[:, None, None], 0.0),
        ("lse", rows, -np.inf),
        ("dk", columns[:, None, None], 0.0),
        ("dv", columns[:, None, None], 0.0),
    )
    due = tuple(row for row in due if row[0] in outputs.names)
    dead = {name: np.broadcast_to(flags, getattr(outputs, name).shape) for name, flags, _ in due}
    judged = sum(int(flags.sum()) for flags in dead.values())
    wrong = {name: dead[name] & (getattr(outputs, name) != value) for name, _, value in due}
    for name, _, value in due:
        if wrong[name].any():
            got = getattr(outputs, name)[wrong[name]].flat[0]
            found = _fails(check, evidence, judged, f"{name} = {got} on a dead row, not {value}")
            return replace(found, pattern=hull(name, wrong[name]), follows=follows(evidence, wrong))
    return _holds(check, evidence, judged)


def repeat_check(check: str, evidence: Evidence) -> Finding:
    """The forward pass alone gives the same bits as the forward of the whole call."""
    judged = 0
    answers = dict(evidence.forward.items()), dict(evidence.outputs.items())
    for name in ("o", "lse"):
        if not any(name in answer for answer in answers):
            continue
        if not all(name in answer for answer in answers):
            return _fails(check, evidence, judged, f"{name} is returned in one call of two")
        alone, whole = (answer[name] for answer in answers)
        judged += whole.size
        if alone.shape != whole.shape:
            return _fails(check, evidence, judged, f"{name} has shape {alone.shape} when alone")
        other = alone.view(np.uint32) != whole.view(np.uint32)
        if other.any():
            at = tuple(int(i) for i in np.argwhere(other)[0])
            reason = f"{name}{list(at)} = {hex_code(whole[at])}, alone {hex_code(alone[at])}"
            return replace(_fails(check, evidence, judged, reason), pattern=hull(name, other))
    return _holds(check, evidence, judged)


def bits_check(check: str, evidence: Evidence) -> Finding:
    """Every output equals the specification's, the sign of zero included."""
    judged = sum(array.size for _, array in evidence.outputs.items())
    bits = evidence.bits
    wrong = {name: other_bits(x, getattr(bits, name)) for name, x in evidence.outputs.items()}
    name = next((name for name, flags in wrong.items() if flags.any()), None)
    if name is None:
        return _holds(check, evidence, judged)
    array, due = getattr(evidence.outputs, name), getattr(bits, name)
    at = tuple(int(i) for i in np.argwhere(wrong[name])[0])
    reason = f"{int(wrong[name].sum())} of {array.size} elements of {name} differ"
    found = _fails(check, evidence, judged, reason, _bits_element(name, array, due, at))
    return replace(found, pattern=hull(name, wrong[name]), follows=follows(evidence, wrong))


def _bits_element(name: str, got: F32, due: F32, at: tuple[int, ...]) -> Element:
    value = float(due[at])
    return Element(
        output=name,
        index=at,
        got=float(got[at]),
        got_hex=hex_code(got[at]),
        expected=value,
        expected_hex=hex_code(due[at]),
        bound=0.0,
        lo=value,
        hi=value,
        margin=np.inf,
    )


def _holds(check: str, evidence: Evidence, judged: int) -> Finding:
    return Finding(check, evidence.case.id, Verdict.CONFORMS, 0.0, judged=judged)


def _fails(
    check: str, evidence: Evidence, judged: int, reason: str, worst: Element | None = None
) -> Finding:
    return Finding(
        check, evidence.case.id, Verdict.FAILS, np.inf, worst, judged=judged, reason=reason
    )
