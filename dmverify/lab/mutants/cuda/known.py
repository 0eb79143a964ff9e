"""What a case is judged by, computed once in a process."""

from __future__ import annotations

from functools import cache
from typing import TypeAlias

from dmverify.lab.mutants.answers import Known

Key: TypeAlias = tuple[str, str]
"""Case id and contract."""


@cache
def known_of(case: str, contract: str) -> Known:
    """What is known of a case; each part is made when first asked for."""
    return Known(case, contract)
