"""What every peer is asked, as case ids.

| stage | what |
|---|---|
| judged | families of inputs at one or two tiles; several heads and batches |
| lengths | short, ragged and unequal lengths, both mask alignments, grouped heads |
| sizes | few rows, odd numbers of them; scales of 0 and below without a mask |
| special | a NaN or an infinity in one element |
| tomography | orthogonal queries, offsets 0 and 4 of V |
| repeats | one call many times, on another stream, in another batch |

Sizes are the smallest that make a peer take more than one tile of keys where that matters (320).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType

from dmverify.conformance.families.tomography.designs import design
from dmverify.conformance.families.tomography.setup import Setup
from dmverify.lab.third_party.kernels import make
from dmverify.spec.recording import Key

ONE = "batch=1,heads=1,kv_heads=1"
LONG, SHORT = 320, 128
TOMOGRAPHY_LENGTH = 512
OFFSETS = (0.0, 4.0)
SPREADS = (1.0, 2.0, 4.0)
HEAD_DIMS = MappingProxyType({"cudnn-fp8": 128, "cudnn-fp8-deterministic": 128, "flash-3-fp8": 128})
"""That peers are asked with, where it is not ``USUAL``."""
USUAL = 64


@dataclass(frozen=True)
class Question:
    """One case id and the stage it belongs to."""

    stage: str
    case_id: str


JUDGED = (
    ("gaussian/spread-1", SHORT, True),
    ("gaussian/spread-2", LONG, True),
    ("gaussian/spread-4", LONG, False),
    ("gaussian/spread-16", SHORT, True),
    ("gaussian/spread-64", SHORT, True),
    ("offset/v-4", LONG, True),
    ("offset/v-16", SHORT, True),
    ("offset/k-16", SHORT, True),
    ("offset/kv-4", SHORT, False),
    ("constant-v/tenth", SHORT, True),
    ("positive-v/short", LONG, False),
    ("rows/gap-8", SHORT, True),
    ("rows/rising", LONG, True),
    ("rows/falling", LONG, True),
    ("rows/ties", SHORT, False),
    ("rows/diagonal", SHORT, True),
    ("logit-size/logits-1e2", SHORT, True),
    ("logit-size/logits-1e3", SHORT, True),
    ("logit-size/negative-scale", SHORT, True),
    ("logit-size/zero-scale", SHORT, True),
    ("outliers/channels", SHORT, True),
    ("duplicates/pairs", SHORT, True),
    ("zero-blocks/all-v", SHORT, True),
    ("zero-blocks/all-q", SHORT, True),
    ("zero-blocks/all-do", SHORT, True),
    ("integers/balanced", SHORT, False),
    ("cancelling-delta/offset-4", SHORT, False),
    ("rounding/signed-zeros", SHORT, True),
)
"""Family and variant, queries and keys, whether causal; one head."""

LENGTHS = (
    "queries=1,keys=1",
    "queries=17,keys=17",
    "queries=65,keys=65",
    "queries=129,keys=129",
    "queries=65,keys=65,causal=0",
    "queries=64,keys=192",
    "queries=192,keys=64",
    "queries=17,keys=129",
    "queries=129,keys=17",
    "queries=64,keys=192,causal=0",
    "queries=192,keys=64,causal=0",
)
HEADS = (
    "batch=2,heads=3,kv_heads=3,queries=128,keys=128",
    "batch=1,heads=3,kv_heads=1,queries=128,keys=128",
    "batch=1,heads=4,kv_heads=2,queries=128,keys=128,causal=0",
)
SIZES = (
    *(f"queries={n},keys={n}" for n in (2, 3, 4, 5, 7, 8, 9, 15, 16, 31, 33, 34, 63, 127)),
    "queries=3,keys=2,causal=0",
    "queries=2,keys=3,causal=0",
)
MORE_HEADS = (
    "batch=1,heads=2,kv_heads=2,queries=3,keys=3",
    "batch=1,heads=3,kv_heads=3,queries=3,keys=3",
    "batch=2,heads=1,kv_heads=1,queries=3,keys=3",
    "batch=1,heads=2,kv_heads=2,queries=129,keys=129",
    "batch=3,heads=3,kv_heads=3,queries=17,keys=17",
)
UNMASKED = "queries=128,keys=896,causal=0"
"""Whole tiles of keys, whether a tile has 64, 128 or 224."""
SPECIAL = tuple(f"{x}-{what}" for x in ("q", "k", "v", "do") for what in ("nan", "inf"))
REPEATED = "batch=1,heads=4,kv_heads=4,queries=1024,keys=1024"


def questions(head_dim: int) -> Iterator[Question]:
    """Every question but tomography, in the order they are asked."""
    d = f"head_dim={head_dim}"
    for variant, n, causal in JUDGED:
        sizes = f"{ONE},queries={n},keys={n},{d},causal={int(causal)}"
        yield Question("judged", f"{variant},{sizes}@0")
    for lengths in LENGTHS:
        yield Question("lengths", f"gaussian/spread-2,{ONE},{d},{lengths}@0")
    for heads in HEADS:
        yield Question("lengths", f"gaussian/spread-2,{d},{heads}@0")
    for lengths in SIZES:
        yield Question("sizes", f"gaussian/spread-2,{ONE},{d},{lengths}@0")
    for heads in MORE_HEADS:
        yield Question("sizes", f"gaussian/spread-2,{d},{heads}@0")
    for scale in ("negative-scale", "zero-scale"):
        yield Question("sizes", f"logit-size/{scale},{ONE},{d},{UNMASKED}@0")
    for variant in SPECIAL:
        sizes = f"{ONE},queries={SHORT},keys={SHORT},{d},causal=1"
        yield Question("special", f"special/{variant},{sizes}@0")


def keys_of(peer: str) -> tuple[Key, ...]:
    """Every question of a peer by case id and contract, tomography's last."""
    asked = make(peer)
    head_dim = head_dim_of(peer)
    ids = [question.case_id for question in questions(head_dim)]
    for setup in setups(head_dim) if asked.limits.backward else ():
        for offset in setup.offsets:
            ids += [call.case.id for call in design(setup, asked.contract, offset=offset)]
    return tuple((case_id, asked.contract) for case_id in ids)


def head_dim_of(peer: str) -> int:
    """Head dim that a peer is asked with."""
    return HEAD_DIMS.get(peer, USUAL)


def repeated_of(peer: str) -> tuple[str, ...]:
    """The calls that are repeated, masked and not."""
    sizes = f"{REPEATED},head_dim={head_dim_of(peer)}"
    return tuple(f"gaussian/spread-2,{sizes},causal={causal}@1" for causal in (1, 0))


def setups(head_dim: int) -> tuple[Setup, ...]:
    """The tomography runs, one for each spread of the logits."""
    return tuple(
        Setup(
            batch=1,
            heads=2,
            kv_heads=2,
            length=TOMOGRAPHY_LENGTH,
            head_dim=head_dim,
            spread=spread,
            offsets=OFFSETS,
            runs=8,
            repeats=1,
        )
        for spread in SPREADS
    )
