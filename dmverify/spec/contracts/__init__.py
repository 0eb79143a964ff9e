"""Contracts: the numerics of kernels, as data."""

from dmverify.spec.contracts.contract import DELTAS, DS_CASTS, VOCABULARY, Contract
from dmverify.spec.contracts.named import (
    ARTICLE,
    BUNDLED,
    CONTRACTS,
    UPSTREAM,
    every_mode,
    get_contract,
)

__all__ = [
    "ARTICLE",
    "BUNDLED",
    "CONTRACTS",
    "DELTAS",
    "DS_CASTS",
    "UPSTREAM",
    "VOCABULARY",
    "Contract",
    "every_mode",
    "get_contract",
]
