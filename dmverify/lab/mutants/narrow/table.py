"""All narrow faults, by id."""

from __future__ import annotations

from dataclasses import replace

from dmverify.lab.mutants.narrow.fault import Narrow
from dmverify.lab.mutants.narrow.pairs import PAIRS
from dmverify.lab.mutants.narrow.triples import SIZES, TRIPLES
from dmverify.lab.mutants.narrow.values import CONTRACTS, VALUES

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
