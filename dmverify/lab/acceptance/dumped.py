"""Stage ``dump``: a dump build tells the specification's numbers and changes no output.

Every number inside, in every mode and cast, at every head dim: compared bit for bit with the
specification where a query sees a key, and the outputs with those of the release build. The suite's
checks of row sums and ledgers then judge the release build's outputs by the numbers inside.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import fields
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from dmverify.conformance.adapter import Forward
from dmverify.conformance.checks import CHECKS
from dmverify.conformance.evidence import Evidence
from dmverify.conformance.families import generate
from dmverify.conformance.kernels.bundled_inside import inside
from dmverify.conformance.kernels.bundled_launch import Choices, launch, options_of, place
from dmverify.conformance.runner import judge
from dmverify.conformance.verdict import Verdict
from dmverify.kernel.build import MODES
from dmverify.lab.acceptance.session import Session
from dmverify.lab.recordings.digests import digest_of
from dmverify.spec.arithmetic.bits import Bits
from dmverify.spec.attention import interpret
from dmverify.spec.case import Case, Internals, Outputs
from dmverify.spec.contracts import get_contract

CASTS = ("nearest", "zero-sum")
SHAPES = {  # by head dim: tails, a group, a mask, rows whose maximum rises
    64: "gaussian/spread-4,heads=2,kv_heads=1,queries=129,keys=193,head_dim=64@0",
    128: "gaussian/spread-2,heads=2,kv_heads=2,queries=65,keys=200,head_dim=128,causal=0@0",
    256: "gaussian/spread-2,heads=2,kv_heads=1,queries=70,keys=130,head_dim=256@0",
}
MATRICES = ("weights", "p", "dp", "ds", "ds_cast", "p_cast")


def run(session: Session) -> dict[str, Any]:
    """Every combination; new ones only while there is time."""
    asked = [
        (name, f"bundled:delta={mode},ds_cast={cast}")
        for name, mode, cast in product(SHAPES.values(), MODES, CASTS)
    ]
    due = [session.pool.submit(numbers, *one) for one in asked]
    rows: list[dict[str, Any]] = []
    waiting: list[Future[list[str]]] = []
    for (name, contract), numbers_due in zip(asked, due, strict=True):
        if session.over:
            break
        case = generate(name, contract=contract)
        internals = inside(case)
        differ: dict[str, int] = differing(case, internals, numbers_due.result())
        plain, dumped = (
            launch(place(case), options_of(case, Choices(dump=dump))).outputs()
            for dump in (False, True)
        )
        changed = digest_of(plain) != digest_of(dumped)
        verdicts = session.pool.submit(rejected, name, contract, plain, internals)
        row = {"case": name, "contract": contract, "differ": differ, "changed": changed}
        rows.append(row)
        waiting.append(verdicts)
    for row, verdicts in zip(rows, waiting, strict=True):
        row["rejected"] = verdicts.result()
    wrong = [
        row for row in rows if row["changed"] or row["rejected"] or any(row["differ"].values())
    ]
    return {"ok": not wrong and len(rows) == len(asked), "run": len(rows), "wrong": wrong}


def numbers(name: str, contract: str) -> Internals:
    """The specification's numbers, by the tensor core's bits."""
    case = generate(name, contract=contract)
    stated = get_contract(contract)
    found = interpret(stated, case.problem, case.inputs, Bits(), internals=True).internals
    assert found is not None
    return found


def rejected(name: str, contract: str, outputs: Outputs, internals: Internals) -> list[str]:
    """What the checks that read a kernel's inside do not find in order."""
    case = generate(name, contract=contract)
    evidence = Evidence(case, Forward(outputs.o, outputs.lse), outputs, internals)
    findings = [judge(check, evidence) for check in CHECKS.values() if check.needs == "internals"]
    bad = [one for one in findings if one.verdict is not Verdict.CONFORMS]
    return [f"{one.check}: {one.verdict.value} {one.reason}" for one in bad]


def differing(case: Case, got: Internals, due: Internals) -> dict[str, int]:
    """How many numbers of each kind differ, without masked scores and rows that see no key."""
    seen = np.asarray(case.problem.mask(case.problem.queries, case.problem.keys))
    live: npt.NDArray[np.bool_] = np.asarray(seen.any(axis=-1))
    counts = {}
    for field in fields(Internals):
        name = field.name
        if name == "norm_divides":
            counts[name] = int(got.norm_divides != due.norm_divides)
            continue
        a, b = getattr(got, name), getattr(due, name)
        if name in MATRICES:
            where: npt.NDArray[np.bool_] = np.broadcast_to(seen, b.shape)
        elif name in ("q", "k", "v", "do"):
            where = np.ones(b.shape, dtype=bool)
        else:
            where = np.broadcast_to(live if b.ndim == 3 else live[:, None], b.shape)
        counts[name] = int(((a != b) & where).sum()) if a.shape == b.shape else b.size
    return counts
