"""Checks of a kernel's making: who computes, which instructions, and whether flags matter.

A kernel takes part by showing more of itself:

| member | gives | check |
|---|---|---|
| ``cubins()`` | its machine code by name, as ELF bytes | instructions |
| ``builds()`` | the same kernel built otherwise, by name | flags |

A kernel in a process of its own shows them through its protocol (``process``), where it can.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dmverify.conformance.adapter import ShowsBuilds, ShowsCode, Unsupported
from dmverify.conformance.evidence import Evidence
from dmverify.conformance.kernels.emulator import Emulator
from dmverify.conformance.session import Session
from dmverify.conformance.verdict import Finding, Verdict
from dmverify.kernel import sass
from dmverify.spec.formats import E4M3, E5M2

OTHER_DATAPATHS = ("HMMA", "HGMMA", "IMMA", "IGMMA", "QMMA", "DMMA", "BMMA")
FULL_PRECISION = ("bf16",)


def own_work_check(check: str, evidence: Evidence) -> Finding:
    """The kernel computes attention itself, in FP8: it calls neither torch's nor the reference."""
    session, case = evidence.session, evidence.case
    assert session is not None
    if reason := session.lacks("watch"):
        return _unsupported(check, case.id, reason)
    if type(session.kernel) is Emulator:
        return _unsupported(check, case.id, "the kernel is the specification")
    if evidence.contract.schedule.operands in FULL_PRECISION:
        return _unsupported(check, case.id, "the contract is ordinary attention")
    with session.under(("watch",)) as seen:
        session.backward()
    if seen:
        others = ", ".join(dict.fromkeys(seen))
        return _fails(check, case.id, f"the kernel lets others compute: {others}")
    return Finding(check, case.id, Verdict.CONFORMS, 0.0, judged=1)


def instructions_check(check: str, evidence: Evidence) -> Finding:
    """Matrix products run on QGMMA and on no other datapath."""
    case = evidence.case.id
    kernel: Any = evidence.kernel  # one that may show more than it must
    contract = evidence.contract
    if not all(contract.element(name) in (E4M3, E5M2) for name in ("q", "k", "v", "do")):
        return _unsupported(check, case, "the contract's products are not all of FP8")
    if not isinstance(kernel, ShowsCode):
        return _unsupported(check, case, "the kernel shows no machine code")
    if sass.disassembler() is None:
        return _unsupported(check, case, "no cuobjdump here to read the machine code")
    cubins = kernel.cubins()
    if cubins is None:
        return _unsupported(check, case, "the kernel shows no machine code")
    said, products, read = [], 0, 0
    for name, cubin in cubins.items():
        code = sass.disassemble(cubin)
        read += len(code)
        products += sum(one.operation.startswith("QGMMA") for one in code)
        other = [one for one in code if one.operation.startswith(OTHER_DATAPATHS)]
        said += [f"{name}: {one.operation} at {one.address:#x}" for one in other[:1]]
    if not products:
        said.append("no QGMMA anywhere")
    if said:
        return _fails(check, case, "; ".join(said))
    return Finding(check, case, Verdict.CONFORMS, 0.0, judged=read)


def flags_check(check: str, evidence: Evidence) -> Finding:
    """Every build of the kernel gives the same bits."""
    case = evidence.case
    kernel: Any = evidence.kernel  # one that may show more than it must
    if not isinstance(kernel, ShowsBuilds):
        return _unsupported(check, case.id, "the kernel shows no other builds")
    builds = kernel.builds()
    if not builds:
        return _unsupported(check, case.id, "the kernel shows no other builds")
    judged = 0
    for build, other in builds.items():
        answer = Session(other, case).ask(case)
        if isinstance(answer, Unsupported):
            return _unsupported(check, case.id, f"build {build}: {answer.reason}")
        for name, array in evidence.outputs.items():
            got = getattr(answer, name)
            judged += array.size
            if got is None or got.tobytes() != array.tobytes():
                return _fails(check, case.id, f"build {build} gives other bits of {name}")
    return Finding(check, case.id, Verdict.CONFORMS, 0.0, judged=judged)


def _unsupported(check: str, case: str, reason: str) -> Finding:
    return Finding(check, case, Verdict.UNSUPPORTED, reason=reason)


def _fails(check: str, case: str, reason: str) -> Finding:
    return Finding(check, case, Verdict.FAILS, np.inf, judged=1, reason=reason)
