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
from dmverify.spec.contracts.schedule import SCHEDULES, Online, Rows, Schedule, Windows

__all__ = [
    "ARTICLE",
    "BUNDLED",
    "CONTRACTS",
    "DELTAS",
    "DS_CASTS",
    "SCHEDULES",
    "UPSTREAM",
    "VOCABULARY",
    "Contract",
    "Online",
    "Rows",
    "Schedule",
    "Windows",
    "every_mode",
    "get_contract",
]
