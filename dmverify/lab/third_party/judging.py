"""Judges every answer by its contract, and describes what no contract covers.

| what | how |
|---|---|
| outputs | the contract's enclosure; gradients as a function of the returned O and LSE |
| causal mask | which alignment's float64 attention O is nearer to |
| rows that see no key | what O and LSE hold there |
| NaN and infinity | rows and keys that are NaN, against those that can see the number |
| LSE | its error from the natural logarithm in float64, and from the base-2 one |
| delta | residual tomography (``dmverify.conformance.tomography``) |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from dmverify.conformance.checks.bands import judge_band
from dmverify.conformance.families.generate import generate
from dmverify.conformance.verdict import Finding, Verdict
from dmverify.lab.third_party.answers import Answers, Entry
from dmverify.lab.third_party.kernels import PEERS, make
from dmverify.lab.third_party.kernels.codes import coded_inputs
from dmverify.lab.third_party.kernels.peer import Limits
from dmverify.lab.third_party.outside import outside
from dmverify.spec.case import F32, F64, Case
from dmverify.spec.contracts import get_contract
from dmverify.spec.enclosure import Band, enclosure

OUTPUTS = ("o", "lse", "dq", "dk", "dv")
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


def judge_all(answers: Answers) -> Iterator[Judgement]:
    """Every answer that is neither tomography's nor without its tensors, in the order asked."""
    for entry in answers.entries:
        if entry.stage != "tomography" and answers.kept(entry):
            yield judge_one(answers, entry)


def judge_one(answers: Answers, entry: Entry) -> Judgement:
    """One answer."""
    case = generate(entry.case_id, contract=answers.contract)
    refused = LIMITS[answers.peer].refusal(case.problem)
    if entry.error:
        declined = refused or any(word in entry.error for word in DECLINES)
        return Judgement(entry.case_id, "refused" if declined else "error", {}, {}, entry.error)
    got = {name: answers.output(entry, name) for name in OUTPUTS if name in entry.tensors}
    if entry.stage == "special":
        return Judgement(case.id, "described", {}, special(case, got))
    findings, widths, off = judged(case, got)
    notes: dict[str, Any] = {"lse": lse_errors(case, got["lse"])} | amaxes(entry)
    if off:
        notes["outside"] = off
    dead = np.asarray(~case.problem.mask().any(1))
    if dead.any():
        notes["dead rows"] = dead_rows(dead, got)
    if case.problem.causal and case.problem.offset:
        notes["mask"] = alignment(case, got["o"])
    if refused:
        return Judgement(case.id, "described", {}, notes, refused)
    fails = any(one.verdict is Verdict.FAILS for one in findings.values())
    return Judgement(case.id, "fails" if fails else "conforms", findings, notes, widths=widths)


def judged(
    case: Case, got: dict[str, F32]
) -> tuple[dict[str, Finding], dict[str, float], dict[str, Any]]:
    """Finding and width of each output, and what is outside; LSE of dead rows is a convention."""
    bands = enclosure(get_contract(case.contract), case.problem, case.inputs, given=got)
    dead = ~case.problem.mask().any(1)
    shown = dict(got)
    shown["lse"] = np.where(dead, np.float32(-np.inf), got["lse"])
    off = {name: outside(bands[name], x) for name, x in shown.items()}
    findings = {name: judge_band(name, case.id, x, bands[name]) for name, x in shown.items()}
    widths = {name: width(bands[name]) for name in shown}
    return findings, widths, {name: found for name, found in off.items() if found}


def width(band: Band) -> float:
    """Median of the half widths of what is decided, over the largest magnitude; 0 if nothing is."""
    whole = band.below + band.above
    decided = ~(band.may_nan & ~band.must_nan & np.isposinf(band.hi))
    half = whole[decided & np.isfinite(whole)] / 2
    largest = np.abs(band.mid[np.isfinite(band.mid)]).max(initial=0.0)
    return float(np.median(half) / largest) if half.size and largest else 0.0


def amaxes(entry: Entry) -> dict[str, float]:
    """What the kernel reported of its own largest magnitudes."""
    return {name: x for name, x in entry.numbers.items() if name.startswith("amax")}


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


def dead_rows(dead: np.typing.NDArray[np.bool_], got: dict[str, F32]) -> dict[str, str]:
    """The values that rows without a key have."""
    found = {"o": got["o"][:, dead], "lse": got["lse"][:, :, dead]}
    if "dq" in got:
        found["dq"] = got["dq"][:, dead]
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


def special(case: Case, got: dict[str, F32]) -> dict[str, Any]:
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
