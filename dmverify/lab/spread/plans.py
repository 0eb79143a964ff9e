"""Plans of runs that are timed or simulated and never reported."""

from __future__ import annotations

from dmverify.conformance.selection import Asked
from dmverify.conformance.spread.block import Asking, Introduced
from dmverify.conformance.spread.plan import Plan
from dmverify.shards import WHOLE


def plan_for(asking: Asking, told: Introduced, asked: tuple[Asked, ...]) -> Plan:
    """The plan of all checks on some cases.

    Args:
        asking: How the kernel is asked.
        told: What it says of itself.
        asked: The cases.
    """
    return Plan(
        made_with="",
        asking=asking,
        producer=told.producer,
        contracts=told.contracts,
        texts={},
        asked=asked,
        checks=(),
        level="",
        seed=0,
        expect="",
        expected=(),
        min_served=0.0,
        max_error={},
        shard=WHOLE,
    )
