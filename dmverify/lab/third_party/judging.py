"""Judges every answer by its contract, and describes what no contract covers.

| what | how |
|---|---|
| outputs | the checks of the suite that bear their names |
| causal mask | which alignment's float64 attention O is nearer to |
| rows that see no key | what O and LSE hold there |
| NaN and infinity | rows and keys that are NaN, against those that can see the number |
| LSE | its error from the natural logarithm in float64, and from the base-2 one |
| delta | residual tomography (``dmverify.conformance.tomography``) |
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from dmverify.conformance.adapter import Forward
from dmverify.conformance.checks import get_check
from dmverify.conformance.checks.bands import band_of
from dmverify.conformance.events import Listener, RunStarted, ignore
from dmverify.conformance.evidence import Evidence
from dmverify.conformance.families.generate import generate
from dmverify.conformance.families.tomography.designs import FAMILY as TOMOGRAPHY
from dmverify.conformance.pipeline import announced, each
from dmverify.conformance.runner import judge
from dmverify.conformance.verdict import Finding, Verdict
from dmverify.lab.third_party.kernels import PEERS, make
from dmverify.lab.third_party.kernels.codes import coded_inputs
from dmverify.lab.third_party.kernels.peer import Limits
from dmverify.lab.third_party.outside import outside
from dmverify.spec.case import F32, F64, Case, Outputs
from dmverify.spec.contracts import get_contract
from dmverify.spec.enclosure import Band
from dmverify.spec.recording import Key, Recording

LIMITS: Mapping[str, Limits] = MappingProxyType({name: make(name).limits for name in PEERS})
"""What each peer promises to serve."""
DECLINES = ("not supported", "NotSupported")
"""Words of libraries that say that they do not serve a case."""
LN2 = float(np.log(2.0))


@dataclass(frozen=True)
class Judgement:
    """One answer.

    Attributes:
        case_id: What was asked.
        verdict: ``conforms``, ``fails``, ``refused`` (the library says that it does not serve
            the case, or its limits say so and it raised), ``error`` (it raised otherwise) or
            ``described`` (no contract says what should happen).
        findings: By output, as of any kernel under test.
        widths: By output, the median of its band's half widths over the largest magnitude.
        notes: What else was seen, by name.
        reason: Why it is refused or an error.
    """

    case_id: str
    verdict: str
    findings: dict[str, Finding]
    notes: dict[str, Any]
    reason: str = ""
    widths: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Ready for json."""
        found = self.findings.items()
        return {
            "case_id": self.case_id,
            "verdict": self.verdict,
            "margins": {name: _row(one, self.widths[name]) for name, one in found},
            "notes": self.notes,
            "reason": self.reason,
        }


def _row(finding: Finding, width: float) -> dict[str, Any]:
    """The worst element of an output; zeros where no element was decided."""
    worst = finding.worst
    return {
        "margin": 0.0 if worst is None else worst.margin,
        "at": [] if worst is None else list(worst.index),
        "got": 0.0 if worst is None else worst.got,
        "low": 0.0 if worst is None else worst.lo,
        "high": 0.0 if worst is None else worst.hi,
        "judged": finding.judged - finding.open,
        "width": width,
    }


def judge_all(recording: Recording, emit: Listener = ignore) -> tuple[Judgement, ...]:
    """Every answer but tomography's, and what has none, in the order asked.

    Args:
        recording: Whole answers of one peer; answers by hash are left out.
        emit: Called with each event.
    """
    told: list[Judgement] = []
    keys = [question.key for question in recording.asked if _describes(recording, question.key)]
    contracts = ", ".join(recording.contracts)
    with announced(RunStarted(recording.producer.kernel, contracts, len(keys)), emit):
        deque(each(_work(recording, keys, told), emit), maxlen=0)
    return tuple(told)


def _describes(recording: Recording, key: Key) -> bool:
    there = key in recording.answers or key in recording.unanswered
    return there and not key[0].startswith(TOMOGRAPHY)


def _work(
    recording: Recording, keys: Iterable[Key], told: list[Judgement]
) -> Iterator[tuple[str, Iterable[Finding]]]:
    """Each case with its findings; what else was seen of it is told beside."""
    for key in keys:
        told.append(judge_one(recording, key))
        yield key[0], told[-1].findings.values()


def judge_one(recording: Recording, key: Key) -> Judgement:
    """One answer."""
    case = generate(key[0], contract=key[1])
    refused = LIMITS[recording.producer.kernel].refusal(case.problem)
    if key in recording.unanswered:
        reason = recording.unanswered[key].reason
        declined = refused or any(word in reason for word in DECLINES)
        return Judgement(case.id, "refused" if declined else "error", {}, {}, reason)
    got = recording.answers[key]
    if case.id.startswith("special/"):
        return Judgement(case.id, "described", {}, special(case, got))
    evidence = _evidence(case, got)
    names = evidence.outputs.names
    notes: dict[str, Any] = {"lse": lse_errors(case, got.lse)}
    bands = {name: band_of(evidence, name) for name in names}
    off = {name: outside(bands[name], x) for name, x in evidence.outputs.items()}
    if any(off.values()):
        notes["outside"] = {name: found for name, found in off.items() if found}
    dead = np.asarray(~case.problem.mask().any(1))
    if dead.any():
        notes["dead rows"] = dead_rows(dead, got)
    if case.problem.causal and case.problem.offset:
        notes["mask"] = alignment(case, got.o)
    if refused:
        return Judgement(case.id, "described", {}, notes, refused)
    findings = {name: judge(get_check(name), evidence) for name in names}
    fails = any(one.verdict is Verdict.FAILS for one in findings.values())
    widths = {name: width(bands[name]) for name in names}
    return Judgement(case.id, "fails" if fails else "conforms", findings, notes, widths=widths)


def _evidence(case: Case, got: Outputs) -> Evidence:
    """An answer as it is judged: the LSE of a row that sees no key is each library's convention."""
    dead = ~case.problem.mask().any(1)
    lse = np.where(dead, np.float32(-np.inf), got.lse)
    return Evidence(case, Forward(got.o, lse), replace(got, lse=lse), two_calls=False)


def width(band: Band) -> float:
    """Median of the half widths of what is decided, over the largest magnitude; 0 if nothing is."""
    whole = band.below + band.above
    decided = ~(band.may_nan & ~band.must_nan & np.isposinf(band.hi))
    half = whole[decided & np.isfinite(whole)] / 2
    largest = np.abs(band.mid[np.isfinite(band.mid)]).max(initial=0.0)
    return float(np.median(half) / largest) if half.size and largest else 0.0


def scores(case: Case, operands: dict[str, F64]) -> F64:
    """Scaled logits in float64, (B, H, Nq, Nk), masked nowhere."""
    q, k = (operands[name].transpose(0, 2, 1, 3) for name in ("q", "k"))
    k = np.repeat(k, case.problem.group, 1)
    return np.asarray(q @ k.swapaxes(2, 3) * case.problem.scale)


def operands(case: Case) -> dict[str, F64]:
    """The contract's operands in float64, (B, N, H, D)."""
    if get_contract(case.contract).schedule.operands == "bf16":
        return {name: x.astype(np.float64) for name, x in case.inputs.items()}
    return {name: coded.exact() for name, coded in coded_inputs(case, case.contract).items()}


def lse_errors(case: Case, lse: F32) -> dict[str, float]:
    """Largest distance of the returned LSE from its natural and its base-2 value."""
    live = case.problem.mask().any(1)
    hidden = np.where(case.problem.mask(), scores(case, operands(case)), -np.inf)[:, :, live]
    if not hidden.size:
        return {}
    peak = hidden.max(-1, keepdims=True)
    natural = (peak + np.log(np.exp(hidden - peak).sum(-1, keepdims=True)))[..., 0]
    got = lse[:, :, live].astype(np.float64)
    return {
        "natural": float(np.abs(got - natural).max()),
        "base 2": float(np.abs(got - natural / LN2).max()),
    }


def dead_rows(dead: np.typing.NDArray[np.bool_], got: Outputs) -> dict[str, str]:
    """The values that rows without a key have."""
    found = {"o": got.o[:, dead], "lse": got.lse[:, :, dead]}
    if "dq" in got.names:
        found["dq"] = got.dq[:, dead]
    return {name: ", ".join(f"{x:g}" for x in np.unique(rows)[:4]) for name, rows in found.items()}


def alignment(case: Case, o: F32) -> dict[str, float]:
    """Largest error of O from float64 attention, for each alignment of the causal mask."""
    p = case.problem
    i, j = np.arange(p.queries)[:, None], np.arange(p.keys)[None]
    seen = {"bottom right": j <= i + p.offset, "top left": j <= i}
    ops = operands(case)
    v = np.repeat(ops["v"].transpose(0, 2, 1, 3), p.group, 1)
    logits, got = scores(case, ops), o.astype(np.float64).transpose(0, 2, 1, 3)
    found = {}
    for name, mask in seen.items():
        hidden = np.where(mask, logits, -np.inf)
        peak = np.where(mask.any(1), hidden.max(-1), 0.0)[..., None]
        e = np.exp(hidden - peak)
        total = e.sum(-1, keepdims=True)
        found[name] = float(np.abs(e / np.where(total > 0, total, 1) @ v - got).max())
    return found


def special(case: Case, got: Outputs) -> dict[str, Any]:
    """Where NaN is, against where the number can be seen (rows of queries, then of keys)."""
    bad: dict[str, Any] = {n: ~np.isfinite(x).all((0, 2, 3)) for n, x in case.inputs.items()}
    seen = np.asarray(case.problem.mask())
    queries = bad["q"] | (seen & (bad["k"] | bad["v"])).any(1)
    graded = queries | bad["do"]
    keys = (seen & graded[:, None]).any(0)
    reach = {"o": queries, "lse": bad["q"] | (seen & bad["k"]).any(1), "dq": graded}
    reach |= {"dk": keys, "dv": keys}
    notes: dict[str, Any] = {}
    for name, x in got.items():
        rows = np.isnan(x).any((0, 1)) if name == "lse" else np.isnan(x).any((0, 2, 3))
        unbounded = np.isinf(x).any((0, 1)) if name == "lse" else np.isinf(x).any((0, 2, 3))
        notes[name] = {
            "rows that can see it": int(reach[name].sum()),
            "of them NaN": int((rows & reach[name]).sum()),
            "others NaN": int((rows & ~reach[name]).sum()),
            "rows with infinity": int(unbounded.sum()),
        }
    return notes
