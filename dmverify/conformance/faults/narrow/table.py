"""All narrow faults, by id."""

from __future__ import annotations

from dataclasses import replace

from dmverify.conformance.faults.narrow.fault import Narrow
from dmverify.conformance.faults.narrow.pairs import PAIRS
from dmverify.conformance.faults.narrow.triples import SIZES, TRIPLES
from dmverify.conformance.faults.narrow.values import CONTRACTS, VALUES

NARROW: dict[str, Narrow] = {
    fault.id: fault
    for fault in (
        *(replace(fault, pair=True) for fault in (*PAIRS, *VALUES, *CONTRACTS)),
        *TRIPLES,
        *SIZES,
    )
}
SEVERAL = frozenset(fault.id for fault in CONTRACTS)
"""Those whose condition names a word of the contract."""
