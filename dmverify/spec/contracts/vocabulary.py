"""The fields of a contract and its schedule: which values each one takes, and what they mean.

| kind of field | values | in a file |
|---|---|---|
| ``VOCABULARY`` | one of a list of words | "mean" |
| ``SIDES`` | 1, 2, 4, ... 128, or for some the word that stands for None | 64, "whole" |
| ``FACTORS`` | what numbers are multiplied with before a cast, or the word for None | 448, "amax" |
| ``FLAGS`` | true or false | true |

A wrong value is refused by the name of its field. Which fields exclude each other: ``exclusions``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from dmverify.errors import ContractError
from dmverify.spec.contracts.deltas import DELTA_MODES
from dmverify.spec.formats import E4M3
from dmverify.spec.scaling.rules import SCALE_RULES, get_rule

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

LONGEST = 400  # characters of a text for people
PAD = 128  # rows are padded to whole multiples of it
DELTAS = tuple(DELTA_MODES)
DS_CASTS = ("nearest", "zero-sum")
RULE = "operand_rule"  # its words are the rows of ``dmverify.spec.scaling.rules``
FLAGS = ("saturate", "gradients")
# Fields that are a number of rows or keys, each with the word for None if it may be None.
SIDES = MappingProxyType(
    {
        "q_block": "whole",
        "k_block": "whole",
        "v_block": "whole",
        "do_block": "whole",
        "window": "",
        "p_group": "",
        "tile": "",
    }
)
# Fields that are a factor, each with its values; None, "amax" in a file, takes it from the data.
FACTORS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "p_scale": tuple(n for n in range(1, 449) if E4M3.round(np.float32(n)) == n),
        "ds_scale": tuple(1 << n for n in range(21)),
    }
)
BY_AMAX = "amax"
FACTOR_VALUES = MappingProxyType(
    {"p_scale": "a whole number of E4M3 from 1 to 448", "ds_scale": "a power of two up to 2^20"}
)
NONE: Mapping[str, str] = MappingProxyType({**SIDES, **dict.fromkeys(FACTORS, BY_AMAX)})
"""The word for None of each field that holds numbers; empty where None is no value."""
_TENSORS = MappingProxyType({"q": "Q", "k": "K", "v": "V", "do": "dO"})
_OPERAND = MappingProxyType(
    {
        "e4m3": "E4M3 codes",
        "e5m2": "E5M2 codes",
        "int8": "integers from -127 to 127",
        "bf16": "the numbers as they came, without a scale",
    }
)
# What fields say that have no words of their own.
MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        **{f"{x}_block": f"rows of {y} that share a scale" for x, y in _TENSORS.items()},
        "window": "keys of one step of the softmax",
        "p_group": "keys that share a basis of the forward's P codes",
        "tile": "side of the tiles, or length of the blocks, that P and dS are cast in",
        "p_scale": "P codes are so many times P; amax takes it from the data",
        "ds_scale": "dS codes are so many times dS; amax takes it from the data",
        "saturate": "whether casts of P and dS saturate",
        "gradients": "whether there is a backward pass",
        "operand_rule": "from the largest magnitude of a block to its scale",
        "schedule": "in which pieces a row of scores is taken",
    }
)
# Every field whose values form a closed vocabulary, with the meaning of each value.
VOCABULARY: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("q_format", "k_format", "v_format", "do_format"), _OPERAND),
        "v_scales": {
            "rows": "the rows of a block of V share one",
            "channels": "each channel of a block has one",
        },
        "scale_span": {
            "head": "every head has scales of its own",
            "group": "the query heads of a key head share one",
            "call": "one scale for all batches and heads",
        },
        "centre_k": {
            "none": "keys are quantised as they are",
            "mean": "the fp32 mean over a head's keys is subtracted first",
            "blocked-mean": "the same, summed per 128-token block and then over ascending blocks",
        },
        "normaliser": {
            "unrounded": "O is divided by the sum of the unrounded e",
            "codes": "O is divided by the sum of the codes that PV used",
        },
        "store": {
            "bf16": "O, dQ, dK and dV in BF16",
            "fp16": "each in FP16",
            "fp32": "each in float32",
            "e4m3": "each in E4M3, saturating",
            "call-exponent": "each in E4M3 times a power of two that the caller chooses",
        },
        "delta": {name: mode.meaning for name, mode in DELTA_MODES.items()},
        "ds_format": {name: _OPERAND[name] for name in ("e4m3", "e5m2")},
        "ds_cast": {
            "nearest": "every element rounds by itself",
            "zero-sum": "errors are carried along chains of 16 keys",
        },
        # of schedules
        "cast": {
            "tiles": "P and dS in square tiles; operands in blocks of rows",
            "blocks": "each in blocks along what a dot sums over, so once for either direction",
        },
        "row_sum": {
            "unspecified": "any order",
            "quad": "four lanes of two chains by key parity, lanes combined at the end",
        },
        "operands": {
            "bf16": "dots run on the BF16 inputs as they came, on tensor cores, in any order",
            "whole": "dots run on codes, on tensor cores, in any order; scales multiply their sums",
        },
        "p": {
            "unrounded": "e as it is",
            "bf16": "e in BF16, relative to a running maximum",
            "e4m3": "code = p_scale e, relative to a running maximum",
        },
        "ds": {
            "unrounded": "neither P nor dS is cast in the backward",
            "bf16": "P and dS in BF16; so may be each query head's part of dK and dV",
            "call-exponent": "P codes are p_scale P; dS codes dS x softmax scale x 2^k of the call",
        },
    }
)


def require_values(record: DataclassInstance) -> None:
    """Refuses a contract or schedule with a value that its field cannot have.

    Raises:
        ContractError: Another type, or a word or number outside the field's values.
        UnknownNameError: For a scale rule that does not exist.
    """
    for field in fields(record):
        _require_value(field.name, getattr(record, field.name))


def word_of(name: str, value: object) -> str | int | bool:
    """A field's value as files and names say it: None has a word there."""
    if value is None:
        return NONE[name]
    assert isinstance(value, (str, int))
    return value


def value_of(name: str, word: object) -> object:
    """A field's value from what a file says."""
    none = NONE.get(name)
    return None if none and word == none else word


def read_word(name: str, text: str) -> object:
    """What a file would say, from a word of a contract's name, where all are texts."""
    if name in FLAGS:
        return {"true": True, "false": False}.get(text, text)
    if name in NONE and text.isascii() and text.isdecimal():
        return int(text[:9])
    return text


def values_of(name: str) -> tuple[str, ...]:
    """What a file may say of a field but ``schedule``, in words; of numbers their rule."""
    if name in VOCABULARY:
        return tuple(VOCABULARY[name])
    none = NONE.get(name)
    if name in FACTORS:
        return (FACTOR_VALUES[name], none or "")
    if name in SIDES:
        return (f"1, 2, 4, ... {PAD}", *([none] if none else []))
    return ("true", "false") if name in FLAGS else tuple(SCALE_RULES)


def _require_value(name: str, value: object) -> None:
    if name in VOCABULARY:
        words = VOCABULARY[name]
        fits = isinstance(value, str) and value in words
        _require(fits, name, value, f"one of {', '.join(words)}")
    elif name in SIDES:
        _require_side(name, value)
    elif name in FACTORS:
        fits = value is None or (type(value) is int and value in FACTORS[name])
        _require(fits, name, value, f'{FACTOR_VALUES[name]}, or "{BY_AMAX}"')
    elif name in FLAGS:
        _require(isinstance(value, bool), name, value, "true or false")
    elif name != "schedule":
        fits = isinstance(value, str) and value.isprintable() and len(value) <= LONGEST
        _require(fits, name, value, f"a line of {LONGEST} printable characters at most")
    if name == RULE:
        get_rule(str(value))


def _require_side(name: str, value: object) -> None:
    none = SIDES[name]
    fits = type(value) is int and 1 <= value <= PAD and PAD % value == 0
    due = f"1, 2, 4, ... {PAD}, which divide the padding" + (f', or "{none}"' if none else "")
    _require(fits or (value is None and bool(none)), name, value, due)


def _require(fits: bool, name: str, value: object, due: str) -> None:
    if not fits:
        raise ContractError(
            f"{name}={value!r:.80}", rule=f"{name} is {due}", fix=f"give {name} one of these"
        )
