"""Which delta a peer takes, from its recorded answers, and what it costs dK."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dmverify.conformance.families.tomography.designs import Call, design
from dmverify.conformance.families.tomography.setup import Setup
from dmverify.conformance.recorded_answers import Recorded
from dmverify.conformance.tomography.tomogram import tomograph
from dmverify.lab.third_party.judging import operands, scores
from dmverify.lab.third_party.questions import SPREADS, setups
from dmverify.spec.case import F32, F64, Case, Outputs
from dmverify.spec.recording import Recording

READ = ("o", "dk")
"""The outputs that a scan reads; others need not be kept."""


class Scanned(Recorded):
    """Recorded answers to a scan; what was not kept of one is 0."""

    def backward(self, case: Case) -> Outputs:
        """The recorded outputs."""
        found = super().backward(case)
        shapes = case.problem.shapes()
        zeros: dict[str, F32] = {
            name: np.zeros(shapes[name], np.float32)
            for name in ("lse", "dq", "dk", "dv")
            if name not in found.names
        }
        return replace(found, **zeros)


def read_delta(recording: Recording, *, contract: str, head_dim: int) -> list[dict[str, Any]]:
    """One row a spread of the logits: verdict, slopes, size, error of dK.

    Args:
        recording: With tomography's answers.
        contract: Name of the contract that they were asked by.
        head_dim: Head dim that they were asked with.
    """
    kernel = Scanned(recording)
    rows = []
    for spread, setup in zip(SPREADS, setups(head_dim), strict=True):
        kept = tuple(x for x in setup.offsets if _there(recording, setup, contract, x))
        if not kept:
            continue
        shown = replace(setup, offsets=kept)
        found = tomograph(kernel, contract, setup=shown).to_json()
        for scan in found["scans"]:
            del scan["rows"]
        costs = {f"{x:g}": dk_error(kernel, contract, shown, x) for x in kept}
        rows.append({"spread": spread, **found, "dk_error": costs})
    return rows


def _there(recording: Recording, setup: Setup, contract: str, offset: float) -> bool:
    calls = design(setup, contract, offset=offset)
    return all((call.case.id, contract) in recording.answers for call in calls)


def dk_error(kernel: Scanned, contract: str, setup: Setup, offset: float) -> float:
    """Norm of dK's error over the norm of dK, over all calls, exact on the kernel's operands."""
    off, whole = 0.0, 0.0
    for call in design(setup, contract, offset=offset):
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
