"""Contracts: the numerics of kernels, as data."""

from dmverify.spec.contracts.contract import Contract, differences, nearest
from dmverify.spec.contracts.exclusions import idle
from dmverify.spec.contracts.named import (
    ARTICLE,
    BUNDLED,
    CONTRACTS,
    UPSTREAM,
    every_mode,
    find_contract,
    get_contract,
    read_contract,
)
from dmverify.spec.contracts.schedule import SCHEDULES, Online, Rows, Schedule, Windows
from dmverify.spec.contracts.text import says, to_table, to_text
from dmverify.spec.contracts.vocabulary import DELTAS, DS_CASTS, VOCABULARY

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
    "differences",
    "every_mode",
    "find_contract",
    "get_contract",
    "idle",
    "nearest",
    "read_contract",
    "says",
    "to_table",
    "to_text",
]
