"""What a check is: one row of the table, with the function that judges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from dmverify.conformance.evidence import Evidence
from dmverify.conformance.verdict import Finding

Judge: TypeAlias = Callable[[str, Evidence], Finding]
"""``judge(check id, evidence) -> Finding``."""


@dataclass(frozen=True)
class Check:
    """One row.

    Attributes:
        id: The name users see.
        section: Module of ``dmverify`` that states what is checked.
        bound: What a conforming kernel stays within, in words.
        targets: The fault it is there to find.
        judge: Judges one case.
        needs: ``internals`` or ``delta`` if the kernel has to show them, ``kernel`` if it has to
            answer again, ``calls`` if the forward pass has to be a call of its own, ``bits`` if the
            contract has to state every order, else empty.
        lemmas: Ids of lemmas of ``dmverify.proofs`` that the bound rests on.
        once: Whether it is about the kernel and not the case, so that one case is enough.
        reads: Outputs that it cannot do without.
    """

    id: str
    section: str
    bound: str
    targets: str
    judge: Judge
    needs: str = ""
    lemmas: tuple[str, ...] = ()
    once: bool = False
    reads: tuple[str, ...] = ()
