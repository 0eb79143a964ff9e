"""What is recorded from a Hopper GPU: cases, each under a contract, in four parts.

| part | cases | contracts |
|---|---|---|
| smoke | those of the level | one each, as the level asks them |
| full | those of the level | one each, as the level asks them, and what a family lacks |
| random | 2,000 problems by chance (``families.chance``) | one each, by turns |
| core | 40, cheap and unlike each other | all twelve |

As the level asks them: under the delta mode and cast of the case's row (``selection``). A family
that meets one of the twelve in no case that the kernel serves has its first such case under it too,
so that every (family, mode, cast) is answered. By turns: the cases of a family go through the
twelve, one place further after every round. A tenth of full and random is chosen by the hash of the
pair, for runs that cannot take all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from dmverify.conformance.families import problem_of
from dmverify.conformance.families.chance import VARIANTS
from dmverify.conformance.selection import select_pairs
from dmverify.kernel.build import HEAD_DIMS
from dmverify.spec.contracts import every_mode

Key = tuple[str, str]
"""A case id and the name of a contract."""

CONTRACTS = every_mode("bundled")
RANDOM_CASES = 2000
BUILT = ("norms",)  # variants that say something at chosen sizes only, which the core asks
PARTS = ("smoke", "full", "random", "core")
TENTH = 10

ADDED: tuple[str, ...] = ()
"""How ids begin that were added after the last recording: no card has answered them."""

CORE = (
    "gaussian/spread-1,heads=2,kv_heads=1,queries=70,keys=130,head_dim=64@0",
    "gaussian/spread-4,heads=1,kv_heads=1,queries=66,keys=130,head_dim=128,softmax_scale=0.41@1",
    "gaussian/spread-16,heads=1,kv_heads=1,queries=40,keys=200,head_dim=256,causal=0@2",
    "constant-v/third,heads=1,kv_heads=1,queries=65,keys=66,head_dim=128@0",
    "positive-v/short,heads=1,kv_heads=1,queries=40,keys=300,head_dim=64@0",
    "offset/k-16,heads=1,kv_heads=1,queries=64,keys=129,head_dim=128@0",
    "offset/kv-4,heads=3,kv_heads=1,queries=64,keys=70,head_dim=64,causal=0@2",
    "rows/rising,heads=1,kv_heads=1,queries=64,keys=200,head_dim=64,causal=0@0",
    "rows/falling,heads=1,kv_heads=1,queries=100,keys=200,head_dim=64@1",
    "rows/ties,heads=1,kv_heads=1,queries=80,keys=130,head_dim=64@2",
    "logit-size/logits-1e3,heads=1,kv_heads=1,queries=65,keys=130,head_dim=64@0",
    "logit-size/negative-scale,heads=2,kv_heads=1,queries=64,keys=65,head_dim=64@1",
    "zero-blocks/q-second,heads=1,kv_heads=1,queries=140,keys=70,head_dim=64,causal=0@0",
    "zero-blocks/v-first,heads=1,kv_heads=1,queries=65,keys=130,head_dim=64@1",
    "tiny-amax/k-2^-100,heads=1,kv_heads=1,queries=65,keys=130,head_dim=64@0",
    "tiny-amax/do-2^-120,heads=1,kv_heads=1,queries=130,keys=65,head_dim=64,causal=0@1",
    "tiny-amax/far-keys-88,heads=1,kv_heads=1,queries=66,keys=130,head_dim=64@2",
    "distinct-scales/thirds,heads=1,kv_heads=1,queries=140,keys=140,head_dim=64@0",
    "distinct-scales/wide,heads=1,kv_heads=1,queries=65,keys=130,head_dim=128@1",
    "rounding/ties,heads=1,kv_heads=1,queries=65,keys=66,head_dim=64@0",
    "rounding/subnormals,heads=1,kv_heads=1,queries=65,keys=65,head_dim=64@1",
    "special/q-nan,heads=2,kv_heads=1,queries=130,keys=70,head_dim=64@0",
    "special/v-inf,heads=1,kv_heads=1,queries=130,keys=130,head_dim=64@7",
    "special/do-minus-inf,heads=2,kv_heads=1,queries=140,keys=65,head_dim=64@2",
    "lengths/n1,heads=1,kv_heads=1,queries=191,keys=130,head_dim=64@0",
    "lengths/n1,heads=5,kv_heads=1,queries=3,keys=300,head_dim=64@1",
    "lengths/n1,batch=2,heads=2,kv_heads=2,queries=33,keys=65,head_dim=64,causal=0@2",
    "cancelling-delta/offset-8,heads=1,kv_heads=1,queries=65,keys=130,head_dim=64,causal=0@0",
    "cast-ties/ds,heads=1,kv_heads=1,queries=64,keys=64,head_dim=64,causal=0@0",
    "cast-ties/ds-offset,heads=1,kv_heads=1,queries=64,keys=64,head_dim=128,causal=0@1",
    "cast-ties/p,heads=1,kv_heads=1,queries=64,keys=64,head_dim=64,causal=0@0",
    "exponentials/tile,heads=1,kv_heads=1,queries=128,keys=64,head_dim=64,causal=0@0",
    "deciding/spikes,heads=2,kv_heads=1,queries=128,keys=64,head_dim=64,causal=0@0",
    "deciding/shift-level,heads=2,kv_heads=1,queries=128,keys=64,head_dim=64,causal=0@0",
    "deciding/delta-level,heads=2,kv_heads=1,queries=128,keys=64,head_dim=64,causal=0@0",
    "rounding/quotient-ties,heads=1,kv_heads=1,queries=65,keys=66,head_dim=64@0",
    "random/repeated@3",
    "random/token-scales@18",
    "random/norms,batch=1,heads=1,kv_heads=1,queries=70,keys=128,head_dim=64,causal=0@0",
    "random/references,batch=1,heads=1,kv_heads=1,queries=40,keys=256,head_dim=64,causal=0,"
    "softmax_scale=0.69313@0",
)


def plan(parts: Sequence[str] = PARTS) -> tuple[Key, ...]:
    """The pairs of some parts, each once, in a fixed order."""
    return tuple(dict.fromkeys(key for part in parts for key in _PARTS[part]()))


def is_added(key: Key) -> bool:
    """Whether a pair was added after the last recording."""
    return key[0].startswith(ADDED)


def tenth(keys: Iterable[Key], run: int) -> tuple[Key, ...]:
    """The tenth of some pairs that a run number chooses; ten runs in a row take them all."""
    return tuple(key for key in keys if _place(key) == run % TENTH)


def by_turns(ids: Iterable[str]) -> tuple[Key, ...]:
    """One contract each, the cases of a family by turns."""
    counts: dict[str, int] = {}
    keys = []
    for case_id in ids:
        family = case_id.partition("/")[0]
        count = counts.get(family, 0)
        turn = count + count // len(CONTRACTS)
        keys.append((case_id, CONTRACTS[turn % len(CONTRACTS)]))
        counts[family] = count + 1
    return tuple(keys)


def _place(key: Key) -> int:
    return int(hashlib.sha256("\n".join(key).encode()).hexdigest()[:8], 16) % TENTH


def _smoke() -> tuple[Key, ...]:
    return select_pairs("smoke", CONTRACTS, seed=0)


def _full() -> tuple[Key, ...]:
    keys = select_pairs("full", CONTRACTS, seed=0)
    return (*keys, *_completing(keys))


def _completing(keys: Sequence[Key]) -> Iterator[Key]:
    """The first served case of a family under each contract that the family has not met."""
    met: dict[str, dict[str, str]] = {}  # family -> contract -> its first case
    for case_id, contract in keys:
        if problem_of(case_id).head_dim in HEAD_DIMS:
            met.setdefault(case_id.partition("/")[0], {}).setdefault(contract, case_id)
    for cases in met.values():
        first = next(iter(cases.values()))
        yield from ((first, contract) for contract in CONTRACTS if contract not in cases)


def _random() -> tuple[Key, ...]:
    names = tuple(name for name in VARIANTS if name not in BUILT)
    return by_turns(f"random/{names[i % len(names)]}@{i}" for i in range(RANDOM_CASES))


def _core() -> tuple[Key, ...]:
    return tuple(product(CORE, CONTRACTS))


_PARTS = {"smoke": _smoke, "full": _full, "random": _random, "core": _core}
