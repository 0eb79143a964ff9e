"""Asks one peer every question and keeps what it says; runs on a GPU machine.

A question that the peer refuses or fails is kept with its error, and the next one is asked. What it
does not promise to serve (``supports``) is asked all the same where its answer tells something: a
causal mask on unequal lengths, NaN and infinity.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dmverify.conformance.families.generate import generate
from dmverify.conformance.tomography.designs import design
from dmverify.lab.third_party.answers import Answers, Array, Entry
from dmverify.lab.third_party.kernels.peer import Peer, Raw
from dmverify.lab.third_party.questions import REPEATED, SPREADS, questions, setups
from dmverify.spec.case import Case, Inputs

REPEATS = 20
LOADED = 10
LOAD = 4096  # side of the matrix that is multiplied on another stream meanwhile
BITS = {torch.bfloat16: torch.int16, torch.float8_e4m3fn: torch.uint8}
READ_BY_TOMOGRAPHY = ("o", "lse", "dk")


def collect(peer: Peer, head_dim: int, folder: Path, *, stages: tuple[str, ...] = ()) -> Answers:
    """Every stage, or those named; the files are written after each, so that little is lost."""
    made_by = {"versions": peer.version(), "device": peer.info.device, "driver": driver()}
    results = Answers(peer.name, peer.contract, made_by, head_dim=head_dim)
    for name in stages or tuple(STAGES):
        begin = time.monotonic()
        STAGES[name](results, peer, head_dim)
        results.made_by[f"seconds of {name}"] = f"{time.monotonic() - begin:.1f}"
        results.save(folder)
    return results


def driver() -> str:
    """The CUDA version that torch was built for; empty without one."""
    return str(torch.version.cuda or "")


def _ask_questions(results: Answers, peer: Peer, head_dim: int) -> None:
    for question in questions(head_dim):
        case = generate(question.case_id, contract=peer.contract)
        results.entries.append(_answered(results, peer, case, question.stage, ()))


def _ask_tomography(results: Answers, peer: Peer, head_dim: int) -> None:
    if not peer.limits.backward:
        return
    for spread, setup in zip(SPREADS, setups(head_dim), strict=True):
        for offset in setup.offsets:
            for call in design(setup, peer.contract, offset=offset):
                entry = _answered(results, peer, call.case, "tomography", READ_BY_TOMOGRAPHY)
                results.entries.append(replace(entry, case_id=f"spread={spread:g}:{call.case.id}"))


def _answered(results: Answers, peer: Peer, case: Case, stage: str, only: tuple[str, ...]) -> Entry:
    try:
        raw = peer.run(case, backward=peer.limits.backward)
        arrays = {name: bits(x) for name, x in raw.items() if x.ndim and (not only or name in only)}
    except Exception as error:  # whatever a library raises is the answer
        return Entry(stage, case.id, error=told(error))
    large = {name: results.keep(x) for name, x in arrays.items() if x.size > 1 or name in OUTPUTS}
    small = {n: float(x.flatten()[0]) for n, x in raw.items() if n not in OUTPUTS}
    return Entry(stage, case.id, large, {n: x for n, x in small.items() if np.isfinite(x)})


OUTPUTS = ("o", "lse", "dq", "dk", "dv")


def bits(x: Tensor) -> Array:
    """A tensor as numpy, BF16 as uint16 and E4M3 as uint8."""
    plain = x.detach().contiguous()
    held = plain.view(BITS[x.dtype]) if x.dtype in BITS else plain
    array: Array = held.cpu().numpy()
    return array.view(np.uint16) if x.dtype is torch.bfloat16 else array


def told(error: Exception) -> str:
    """An exception in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def _ask_repeats(results: Answers, peer: Peer, head_dim: int) -> None:
    for causal in (True, False):
        case_id = f"gaussian/spread-2,{REPEATED},head_dim={head_dim},causal={int(causal)}@1"
        case = generate(case_id, contract=peer.contract)
        for name, vary in VARIED.items():
            try:
                found = list(vary(peer, case))
            except Exception as error:
                results.repeats.append({"case": case_id, "varied": name, "error": told(error)})
                continue
            results.repeats.extend({"case": case_id, "varied": name, **row} for row in found)


def _same_stream(peer: Peer, case: Case) -> Iterator[dict[str, Any]]:
    step = peer.step(case, backward=peer.limits.backward)
    yield from _differences(step(), [step() for _ in range(REPEATS)])


def _under_load(peer: Peer, case: Case) -> Iterator[dict[str, Any]]:
    step = peer.step(case, backward=peer.limits.backward)
    first, runs = step(), []
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    busy = torch.ones(LOAD, LOAD, device="cuda", dtype=torch.bfloat16)
    for _ in range(LOADED):
        busy @ busy
        with torch.cuda.stream(side):
            runs.append(step())
    torch.cuda.synchronize()
    yield from _differences(first, runs)


def _other_batch(peer: Peer, case: Case) -> Iterator[dict[str, Any]]:
    """The call beside its mirror image, which has the same scales if nothing is masked."""
    if case.problem.causal:
        return
    two = replace(case, problem=replace(case.problem, batch=2), inputs=_beside(case.inputs))
    alone = peer.run(case, backward=peer.limits.backward)
    beside = peer.run(two, backward=peer.limits.backward)
    yield from _differences(alone, [{n: x[:1] for n, x in beside.items() if n in OUTPUTS}])


def _beside(inputs: Inputs) -> Inputs:
    pairs = {name: np.concatenate([x, x[:, ::-1]]) for name, x in inputs.items()}
    return Inputs(**pairs)


def _differences(first: Raw, runs: list[Raw]) -> Iterator[dict[str, Any]]:
    """One row an output: in how many runs it differed, in how many elements, by how much."""
    for name in (n for n in OUTPUTS if n in first):
        same = _plain_bits(first[name])
        changed = [int((_plain_bits(run[name]) != same).sum()) for run in runs]
        moved = [float((run[name].float() - first[name].float()).abs().max()) for run in runs]
        yield {
            "output": name,
            "runs": len(runs),
            "runs_that_differ": sum(count > 0 for count in changed),
            "elements": int(first[name].numel()),
            "most_elements": max(changed, default=0),
            "largest_difference": max(moved, default=0.0),
            "largest_value": float(first[name].float().abs().max()),
        }


def _plain_bits(x: Tensor) -> Array:
    """Bits as whole numbers, so that a NaN equals itself and -0 is not 0."""
    array = bits(x)
    return array.view(np.uint32) if array.dtype == np.float32 else array


VARIED: dict[str, Callable[[Peer, Case], Iterator[dict[str, Any]]]] = {
    "run": _same_stream,
    "stream under load": _under_load,
    "batch": _other_batch,
}
STAGES: dict[str, Callable[[Answers, Peer, int], None]] = {
    "questions": _ask_questions,
    "tomography": _ask_tomography,
    "repeats": _ask_repeats,
}
"""In this order."""
