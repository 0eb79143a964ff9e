"""Checks of form and special values: formats, NaN, dead rows, repetition, bits."""

from __future__ import annotations

import numpy as np

from dmverify.conformance.checks.bands import hex_code
from dmverify.conformance.evidence import Evidence
from dmverify.conformance.verdict import Element, Finding, Verdict
from dmverify.spec.attention.interpret import STORED_IN_BF16
from dmverify.spec.case import F32, beyond_bf16


def format_check(check: str, evidence: Evidence) -> Finding:
    """O and the gradients hold BF16 numbers, as they are stored."""
    judged = 0
    for name in STORED_IN_BF16:
        array = getattr(evidence.outputs, name)
        judged += array.size
        wide = beyond_bf16(array) & ~np.isnan(array)
        if wide.any():
            at = tuple(int(i) for i in np.argwhere(wide)[0])
            reason = f"{name}{list(at)} = {hex_code(array[at])} is no BF16 number"
            return _fails(check, evidence, judged, reason)
    return _holds(check, evidence, judged)


def nan_check(check: str, evidence: Evidence) -> Finding:
    """NaN where every conforming kernel gives NaN, and nowhere that none does."""
    judged = 0
    for name, array in evidence.outputs.items():
        band, nan = evidence.bands[name], np.isnan(array)
        judged += array.size
        wrong = (nan & ~band.may_nan) | (~nan & band.must_nan)
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            said = "NaN is due" if band.must_nan[at] else "a number is due"
            reason = f"{name}{list(at)} = {array[at]} where {said} ({int(wrong.sum())} elements)"
            return _fails(check, evidence, judged, reason)
    return _holds(check, evidence, judged)


def dead_row_check(check: str, evidence: Evidence) -> Finding:
    """Queries that see no key: O = 0, LSE = -inf, dQ = 0; keys that no query sees: dK = dV = 0."""
    if not all(np.isfinite(array).all() for _, array in evidence.case.inputs.items()):
        return _holds(check, evidence, 0)  # a dense kernel multiplies a hidden NaN by 0
    outputs, seen = evidence.outputs, evidence.case.problem.mask()
    rows, columns = ~seen.any(axis=1), ~seen.any(axis=0)
    due: tuple[tuple[str, F32, float], ...] = (
        ("o", outputs.o[:, rows], 0.0),
        ("dq", outputs.dq[:, rows], 0.0),
        ("lse", outputs.lse[..., rows], -np.inf),
        ("dk", outputs.dk[:, columns], 0.0),
        ("dv", outputs.dv[:, columns], 0.0),
    )
    judged = sum(array.size for _, array, _ in due)
    for name, array, value in due:
        if not (array == value).all():
            got = array[array != value].flat[0]
            return _fails(check, evidence, judged, f"{name} = {got} on a dead row, not {value}")
    return _holds(check, evidence, judged)


def repeat_check(check: str, evidence: Evidence) -> Finding:
    """The forward pass alone gives the same bits as the forward of the whole call."""
    judged = 0
    for name in ("o", "lse"):
        alone, whole = getattr(evidence.forward, name), getattr(evidence.outputs, name)
        judged += whole.size
        if alone.shape != whole.shape:
            return _fails(check, evidence, judged, f"{name} has shape {alone.shape} when alone")
        other = alone.view(np.uint32) != whole.view(np.uint32)
        if other.any():
            at = tuple(int(i) for i in np.argwhere(other)[0])
            reason = f"{name}{list(at)} = {hex_code(whole[at])}, alone {hex_code(alone[at])}"
            return _fails(check, evidence, judged, reason)
    return _holds(check, evidence, judged)


def bits_check(check: str, evidence: Evidence) -> Finding:
    """Every output equals the specification's, the sign of zero included."""
    judged = 0
    for name, array in evidence.outputs.items():
        due = getattr(evidence.bits, name)
        judged += array.size
        other = (array.view(np.uint32) != due.view(np.uint32)) & ~(np.isnan(array) & np.isnan(due))
        if other.any():
            at = tuple(int(i) for i in np.argwhere(other)[0])
            worst = _bits_element(name, array, due, at)
            reason = f"{int(other.sum())} of {array.size} elements of {name} differ"
            return _fails(check, evidence, judged, reason, worst)
    return _holds(check, evidence, judged)


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
        check, evidence.case.id, Verdict.DOES_NOT, np.inf, worst, judged=judged, reason=reason
    )
