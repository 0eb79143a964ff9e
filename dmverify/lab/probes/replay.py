"""Replays the recorded instructions on the specification: every bit must agree. Needs no GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dmverify.lab.probes import model
from dmverify.lab.probes.blocks import BLOCK, digest
from dmverify.lab.probes.forms import families
from dmverify.lab.probes.recordings import FOLDER, load, manifest
from dmverify.lab.probes.wgmma_source import Form

DEFAULT_BLOCKS = (0x3F8, 0x400, 0x007, 0x7F7, 0x7F8, 0xBF9, 0xC2F, 0x800)
"""Blocks of 2^20 inputs, by their number: around 1, 2, small, huge, NaN, negative, -126, -0."""


@dataclass(frozen=True)
class Replay:
    """One comparison.

    Attributes:
        name: Form and family, instruction, or instruction and block.
        outputs: Outputs compared.
        mismatches: Outputs that differ in any bit; a block whose hash differs counts as all of it.
    """

    name: str
    outputs: int
    mismatches: int


def replay(folder: Path = FOLDER, *, blocks: tuple[int, ...] = DEFAULT_BLOCKS) -> Iterator[Replay]:
    """Compares all recordings, and the given blocks of the exhaustive sweeps.

    Raises:
        RecordingError: A recording is missing or changed.
    """
    yield from replay_wgmma(folder)
    yield from replay_functions(folder)
    yield from replay_arith(folder)
    yield from replay_blocks(folder, blocks=blocks)


def replay_wgmma(folder: Path = FOLDER) -> Iterator[Replay]:
    """The tensor core, one result per form and family."""
    arrays = load("wgmma", folder=folder)
    for fields in manifest(folder)["forms"]:
        form = Form(**fields)
        a, b, c, d = (arrays[f"{form.name}/{key}"] for key in "abcd")
        c = c.view(np.float32 if form.accumulator == "f32" else np.float16)
        for i, family in enumerate(families(form)):
            got = model.tensor_core_tile(form, a[i], b[i], c=c[i])
            yield _compare(f"{form.name}/{family}", got, d[i])


def replay_functions(folder: Path = FOLDER) -> Iterator[Replay]:
    """The instructions of one operand, over every binade."""
    arrays = load("functions", folder=folder)
    x = arrays["inputs"].view(np.float32)
    for key in arrays:
        if key.startswith("map/"):
            yield _compare(key, model.UNARY[key.removeprefix("map/")](x), arrays[key])


def replay_arith(folder: Path = FOLDER) -> Iterator[Replay]:
    """float32 arithmetic."""
    arrays = load("arith", folder=folder)
    operands = arrays["operands"].view(np.float32)
    for key in arrays:
        if key.startswith("out/"):
            got = model.arithmetic(key.removeprefix("out/"), operands)
            yield _compare(key, got, arrays[key])


def replay_blocks(
    folder: Path = FOLDER, *, blocks: tuple[int, ...] = DEFAULT_BLOCKS
) -> Iterator[Replay]:
    """Blocks of 2^20 consecutive inputs of the exhaustive sweeps, by their hash."""
    arrays = load("functions", folder=folder)
    for name, function in model.UNARY.items():
        hashes = arrays[f"hash/{name}"]
        for block in blocks:
            x = (np.arange(BLOCK, dtype=np.uint32) + np.uint32(block * BLOCK)).view(np.float32)
            same = digest(model.bits(function(x))) == hashes[block].tobytes()
            yield Replay(f"hash/{name}/{block:#05x}", BLOCK, 0 if same else BLOCK)


def _compare(name: str, got: NDArray[np.generic], want: NDArray[np.generic]) -> Replay:
    return Replay(name, want.size, int(np.count_nonzero(model.bits(got) != want)))
