"""Digests of band ends, bits and ledgers of a wide set of cases, to compare two trees.

    python tests/enclosure/ends.py write OUT.json [CASES]     with the tree under PYTHONPATH
    python tests/enclosure/ends.py compare OLD.json NEW.json

A change of how enclosures, bits or ledgers are evaluated must leave every number as it was, so it
is run on the tree before and on the tree after, and compared. ``write`` takes every smoke case
under its own contract and under one of the contracts in turn, then random problems: grouped heads,
lengths that differ, no mask, dead rows, no keys or queries, a NaN or an infinity in each operand,
given O and LSE, and both orders. CASES ends it early.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np

from dmverify.conformance.families import generate, list_cases
from dmverify.errors import DmverifyError
from dmverify.spec.arithmetic import Bits, Single
from dmverify.spec.attention import interpret
from dmverify.spec.attention.parts import bits_in_parts
from dmverify.spec.case import Inputs
from dmverify.spec.contracts import Contract, get_contract
from dmverify.spec.enclosure import enclosure
from dmverify.spec.formats import BF16
from dmverify.spec.ledger import ledger
from dmverify.spec.problem import Problem

DELTAS = ("stale", "consistent", "matched", "renormalized", "shifted")
CONTRACTS = (
    *(f"article:delta={d}" for d in DELTAS),
    "article:delta=associated,normaliser=codes",
    "article:delta=stale,ds_cast=zero-sum",
    "upstream",
    *(f"bundled:delta={d}" for d in (*DELTAS, "associated")),
    *(f"bundled:delta={d},ds_cast=zero-sum" for d in (*DELTAS, "associated")),
    "bf16-math",
    "bf16-flash",
    "flash-3-fp8",
    "cudnn-fp8",
)
ODD = (np.nan, np.inf, -np.inf)
RANDOM = 240


def questions() -> Iterator[tuple[str, str, Problem, Inputs]]:
    """Name, contract, problem and inputs of everything that is asked."""
    for i in range(RANDOM):
        problem, inputs = random_problem(i)
        yield f"random {i}", CONTRACTS[i % len(CONTRACTS)], problem, inputs
    for i, case_id in enumerate(list_cases(seed=0)):
        case = generate(case_id, contract="article")
        for name in dict.fromkeys(("article", CONTRACTS[i % len(CONTRACTS)], _bits_of(i))):
            yield case_id, name, case.problem, case.inputs


def _bits_of(i: int) -> str:
    bundled = [name for name in CONTRACTS if name.startswith("bundled")]
    return bundled[i % len(bundled)]


def random_problem(i: int) -> tuple[Problem, Inputs]:
    """Small problems of every kind of shape, every third with something that is not finite."""
    rng = np.random.default_rng([i, 77])
    kv_heads, group = int(rng.integers(1, 3)), int(rng.integers(1, 4))
    lengths = (0, 1, 2, 7, 31, 63, 64, 65, 96, 127, 128, 129, 150, 193)
    scales = (None, None, 0.3, -0.2, 0.0, 5.0)
    problem = Problem(
        batch=int(rng.integers(1, 3)),
        heads=kv_heads * group,
        kv_heads=kv_heads,
        queries=int(rng.choice(lengths)),
        keys=int(rng.choice(lengths)),
        head_dim=int(rng.choice((32, 64))),
        causal=bool(rng.integers(0, 2)),
        softmax_scale=scales[int(rng.integers(len(scales)))],
    )
    spread = float(rng.choice((0.3, 1.0, 4.0)))
    tensors = {}
    for name in ("q", "k", "v", "do"):
        x = rng.standard_normal(problem.shapes()[name]).astype(np.float32) * spread
        tensors[name] = BF16.round(x.astype(np.float32), saturate=False)
    if i % 3 == 1:
        x = tensors[("q", "k", "v", "do")[i // 3 % 4]]
        if x.size:
            x.ravel()[int(rng.integers(x.size))] = ODD[i // 12 % 3]
    return problem, Inputs(**tensors)


def digest(arrays: list[np.ndarray]) -> list[object]:
    """How many numbers, and a hash of them; -0 counts as 0, and one NaN as another."""
    sha = hashlib.sha256()
    for array in arrays:
        plain = np.asarray(array, np.float64) + 0.0
        sha.update(np.where(np.isnan(plain), np.nan, plain).tobytes())
    return [sum(array.size for array in arrays), sha.hexdigest()[:16]]


def answers(contract: Contract, problem: Problem, inputs: Inputs) -> Iterator[tuple[str, object]]:
    """Every digest of one question."""
    run = interpret(contract, problem, inputs, Single(), internals=True)
    given = {"o": run.outputs.o, "lse": run.outputs.lse}
    for word, options in _ways(contract, given).items():
        try:
            bands = enclosure(contract, problem, inputs, **options)
        except DmverifyError as error:
            yield word, type(error).__name__
            continue
        for name, band in bands.items():
            kept = [getattr(band, f.name) for f in fields(band)]
            yield f"{word} {name}", digest(kept)
    if contract.bit_exact:
        run = interpret(contract, problem, inputs, Bits(), internals=True)
        yield "bits", digest([array for _, array in run.outputs.items()])
        plain = interpret(contract, problem, inputs, Bits())
        yield "bits alone", digest([array for _, array in plain.outputs.items()])
        parts = bits_in_parts(contract, problem, inputs)
        yield "bits in parts", digest([array for _, array in parts.items()])
    yield from _ledger(contract, problem, inputs, run)


def _ways(contract: Contract, given: dict[str, np.ndarray]) -> dict[str, dict[str, object]]:
    ways: dict[str, dict[str, object]] = {"bands": {}, "given": {"given": given}}
    if contract.schedule.kind == "windows":
        ways["free"] = {"order": "free"}
    return ways


def _ledger(
    contract: Contract, problem: Problem, inputs: Inputs, run: object
) -> Iterator[tuple[str, object]]:
    if run.internals is None:
        return
    kept = [getattr(run.internals, f.name) for f in fields(run.internals)]
    yield "internals", digest([x for x in kept if isinstance(x, np.ndarray)])
    try:
        with np.errstate(all="ignore"):
            found = ledger(
                contract, problem, inputs=inputs, internals=run.internals, outputs=run.outputs
            )
    except DmverifyError as error:
        yield "ledger", type(error).__name__
        return
    rows = [found.residual, found.size, found.closes, found.defined, found.at]
    for name in found.names:
        exact = hash(tuple(found.fractions(name))) if len(found.at) < 600 else 0
        yield f"term {name}", [*digest([found.values[name], found.bounds[name]]), exact]
    yield "ledger", digest(rows)


def write(path: Path, most: int) -> None:
    """All digests, by question and name."""
    found: dict[str, object] = {}
    for i, (case_id, name, problem, inputs) in enumerate(questions()):
        if i == most:
            break
        contract = get_contract(name)
        try:
            for what, value in answers(contract, problem, inputs):
                found[f"{case_id} | {name} | {what}"] = value
        except DmverifyError as error:
            found[f"{case_id} | {name}"] = type(error).__name__
    path.write_text(json.dumps(found, indent=0))


def compare(old: Path, new: Path) -> None:
    """Counts, and what differs."""
    left, right = (json.loads(path.read_text()) for path in (old, new))
    differing = [k for k in left.keys() | right.keys() if left.get(k) != right.get(k)]
    numbers = sum(value[0] for value in left.values() if isinstance(value, list))
    sys.stdout.write(f"{len(left)} digests of {numbers} numbers, {len(differing)} differ\n")
    for key in sorted(differing)[:40]:
        sys.stdout.write(f"{key} {left.get(key)} {right.get(key)}\n")
    sys.exit(bool(differing))


if __name__ == "__main__":
    if sys.argv[1] == "compare":
        compare(Path(sys.argv[2]), Path(sys.argv[3]))
    write(Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else -1)
