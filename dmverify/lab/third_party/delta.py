"""Which delta a peer takes, from its stored answers, and what it costs dK."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dmverify.conformance.tomography.designs import Call, design
from dmverify.conformance.tomography.setup import Setup
from dmverify.conformance.tomography.tomogram import tomograph
from dmverify.lab.third_party.answers import Answers
from dmverify.lab.third_party.judging import operands, scores
from dmverify.lab.third_party.questions import SPREADS, setups
from dmverify.lab.third_party.replayed import Replayed
from dmverify.spec.case import F64


def read_delta(answers: Answers, *, head_dim: int) -> list[dict[str, Any]]:
    """One row a spread of the logits: verdict, slopes, size, error of dK.

    Args:
        answers: With tomography's entries.
        head_dim: That they were asked with.
    """
    rows = []
    for spread, setup in zip(SPREADS, setups(head_dim), strict=True):
        kernel = Replayed(answers, prefix=prefix(spread))
        kept = tuple(x for x in setup.offsets if _there(answers, setup, x, prefix(spread)))
        if not kept:
            continue
        shown = replace(setup, offsets=kept)
        found = tomograph(kernel, answers.contract, setup=shown).to_json()
        for scan in found["scans"]:
            del scan["rows"]
        costs = {f"{x:g}": dk_error(answers, shown, x, prefix(spread)) for x in kept}
        rows.append({"spread": spread, **found, "dk_error": costs})
    return rows


def prefix(spread: float) -> str:
    """What stands before a call's id in the answers."""
    return f"spread={spread:g}:"


def _there(answers: Answers, setup: Setup, offset: float, before: str) -> bool:
    calls = design(setup, answers.contract, offset=offset)
    entries = [answers.find(before + call.case.id) for call in calls]
    return all(entry is not None and answers.kept(entry) for entry in entries)


def dk_error(answers: Answers, setup: Setup, offset: float, before: str) -> float | None:
    """Norm of dK's error over the norm of dK, over all calls, exact on the kernel's operands."""
    kernel = Replayed(answers, prefix=before)
    off, whole = 0.0, 0.0
    for call in design(setup, answers.contract, offset=offset):
        entry = answers.find(before + call.case.id)
        if entry is None or entry.error:
            return None
        want = exact_dk(call)
        off += float(((kernel.backward(call.case).dk - want) ** 2).sum())
        whole += float((want**2).sum())
    return float(np.sqrt(off / whole))


def exact_dk(call: Call) -> F64:
    """dK in float64 on the contract's operands, (B, Nk, Hkv, D)."""
    case = call.case
    ops = operands(case)
    logits = np.where(case.problem.mask(), scores(case, ops), -np.inf)
    e = np.exp(logits - logits.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    q, k, v, do = (ops[name].transpose(0, 2, 1, 3) for name in ("q", "k", "v", "do"))
    v = np.repeat(v, case.problem.group, 1)
    dp = do @ v.swapaxes(2, 3)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True))
    wide = ds.swapaxes(2, 3) @ q * case.problem.scale
    batch, heads, keys, width = wide.shape
    grouped = wide.reshape(batch, k.shape[1], heads // k.shape[1], keys, width).sum(2)
    return np.asarray(grouped.transpose(0, 2, 1, 3))
