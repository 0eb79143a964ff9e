"""Which cases the acceptance runs: shapes x modes x casts x head dims, as data.

Every (head dim, mode, cast) meets its share of each row; the shares rotate, so that each head dim
meets every length and every family, and each mode and cast meets every kind of tail.

| row | taken from | share |
|---|---|---|
| lengths | ``families.lengths``: equal and unequal tails, causal and full | 6 |
| groups | 1, 3, 7, 8 query heads a key head | 1 |
| families | every other adversarial family, causal or full as it comes | 4 |
| empty | no queries, no keys, no batch: through the public function | 1 |
| captures | trained models, channels padded with zeros to 64 | 1 |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from dmverify.conformance.families import list_cases
from dmverify.conformance.families.case_id import parse_case_id
from dmverify.conformance.families.lengths import EQUAL, GROUPS, UNEQUAL
from dmverify.spec.contracts import DELTAS, DS_CASTS

HEAD_DIMS = (64, 128, 256)
LENGTHS = (*((n, n) for n in EQUAL), *UNEQUAL, (320, 320), (256, 193))
EMPTY = tuple(f"lengths/{name}@0" for name in ("no-queries", "no-keys", "no-keys-full", "no-batch"))
SHARE_LENGTHS, SHARE_FAMILIES = 6, 4
STRIPES = (528, 1, 2, 3)  # units of one stripe of the backward: the bits must not depend on it

# Long cases of which the last queries are recorded, with the heads that are kept.
TAILS: tuple[tuple[str, str, tuple[int, ...]], ...] = (
    (
        "gaussian/spread-1,heads=2,kv_heads=2,queries=8192,keys=8192,head_dim=128@0",
        "bundled",
        (0, 1),
    ),
    (
        "offset/kv-4,heads=4,kv_heads=1,queries=4096,keys=4096,head_dim=64,causal=0@0",
        "bundled:delta=shifted,ds_cast=zero-sum",
        (1, 3),
    ),
    (
        "gaussian/spread-8,heads=1,kv_heads=1,queries=4096,keys=4224,head_dim=256@0",
        "bundled:delta=consistent",
        (0,),
    ),
)
LARGE = "gaussian/spread-2,heads=16,kv_heads=16,queries=8192,keys=8192,head_dim=128@0"
LONGEST = 65_536

# Families whose sizes are part of what they target, or that another row of the table covers.
_ELSEWHERE = ("lengths", "capture", "layout")


@dataclass(frozen=True)
class Combination:
    """One case under one contract.

    Attributes:
        case: Its id.
        contract: ``bundled`` with its modifiers.
        units: Size of a stripe of the backward.
    """

    case: str
    contract: str
    units: int = STRIPES[0]


def combinations() -> tuple[Combination, ...]:
    """All combinations, in a fixed order."""
    families, captures = _families(), list_cases("capture")
    layouts = list_cases("layout")
    found: list[Combination] = []
    for i, (d, mode, cast) in enumerate(product(HEAD_DIMS, DELTAS, DS_CASTS)):
        contract = _contract(mode, cast)
        ids = [
            *_lengths(i, d),
            f"lengths/group-{GROUPS[i % len(GROUPS)]},head_dim={d},causal={i // 2 % 2}@{i}",
            *(_with(text, d) for text in _share(families, i, SHARE_FAMILIES)),
            _with(captures[i % len(captures)], 64),
            _with(layouts[i % len(layouts)], d),
            _with(EMPTY[i % len(EMPTY)], d),
        ]
        found += [
            Combination(text, contract, STRIPES[(i + j) % len(STRIPES)])
            for j, text in enumerate(ids)
        ]
    return tuple(found)


def _contract(mode: str, cast: str) -> str:
    return f"bundled:delta={mode},ds_cast={cast}"


def _lengths(i: int, d: int) -> Iterator[str]:
    """Lengths by turns; masks alternate so that every length meets both with every head dim."""
    for j, (queries, keys) in enumerate(_share(LENGTHS, i, SHARE_LENGTHS)):
        causal = (i + j + i * SHARE_LENGTHS // len(LENGTHS)) % 2
        yield f"lengths/n1,queries={queries},keys={keys},head_dim={d},causal={causal}@{i}"


def _share(items: Sequence, i: int, count: int) -> list:  # type: ignore[type-arg]
    """``count`` items from place ``i * count`` on, around the end."""
    return [items[(i * count + j) % len(items)] for j in range(count)]


def _families() -> tuple[str, ...]:
    """The ids of the drawn families that keep their own sizes but the head dim."""
    return tuple(text for text in list_cases() if text.split("/")[0] not in _ELSEWHERE)


def _with(text: str, head_dim: int) -> str:
    """The id with another head dim."""
    parts = parse_case_id(text)
    fields = {**parts.fields, "head_dim": head_dim}
    words = "".join(f",{name}={int(value)}" for name, value in fields.items())
    return f"{parts.family}/{parts.variant}{words}@{parts.seed}"
