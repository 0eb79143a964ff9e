"""The refuter: a search for inputs that break a bound, which knows nothing of the proofs.

    dmverify lab refuter --rounds 400 --workers 16 --out refuter.json

It mutates bits of inputs and keeps what brings a kernel closer to a bound (hill climbing with
restarts), for one bound after another. A margin is |error| / bound; above 1 is a violation. The
kernels are conforming ones with random orders (``kernels``), so that a violation is a wrong bound.
A search ends after a number of evaluations, not after a time: a seed fixes what it finds.

| target | genome | margins |
|---|---|---|
| tensor-core | E4M3 codes of one dot of 64 | ``wgmma_any_order`` |
| float32 | float32 bits of one dot of 40 | ``fp32_dot`` |
| attention | BF16 bits of q, k, v, dO; contract, order | enclosures, closed forms, ledger |
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from dmverify.conformance.checks.margins import compare
from dmverify.spec.arithmetic import Exact
from dmverify.spec.arithmetic.enclosure_dot import fp32_dot, wgmma_any_order
from dmverify.spec.arithmetic.interval import point
from dmverify.spec.attention import interpret
from dmverify.spec.bounds import OUTPUTS, closed_form, measure, residual
from dmverify.spec.case import F32, F64, Inputs
from dmverify.spec.contracts import DELTAS, DS_CASTS, Contract, get_contract
from dmverify.spec.enclosure import enclosure
from dmverify.spec.formats import E4M3
from dmverify.spec.ledger import Ledger, ledger
from dmverify.spec.machine.hopper import wgmma_values
from dmverify.spec.margin import margin_of
from dmverify.spec.problem import Problem
from dmverify.studies.bounds.kernels import Shuffled, conforming
from dmverify.studies.bounds.parallel import Part, parallel

Random = np.random.Generator
Genome = dict[str, Any]
PATIENCE = 60  # mutations without progress before a restart
ATTEMPTS = 6  # orders tried for each genome


class Target(Protocol):
    """A kind of bound under attack."""

    def start(self, random: Random) -> Genome:
        """A first genome."""

    def judge(self, genome: Genome, random: Random) -> dict[str, float]:
        """Margins by bound."""


@dataclass
class Score:
    """What was found about one bound."""

    evaluations: int = 0
    best: float = 0.0
    violations: int = 0
    witness: str = field(default="", repr=False)


class TensorCore:
    """One dot of 64 products, two instructions."""

    def start(self, random: Random) -> Genome:
        """Codes of any size."""
        return {"a": _codes(random, 64), "b": _codes(random, 64)}

    def judge(self, genome: Genome, random: Random) -> dict[str, float]:
        """Random orders, and products sorted by size."""
        a, b = (E4M3.decode(genome[name])[None] for name in "ab")
        band = wgmma_any_order(point(a), point(b))
        exact = float((a.astype(np.float64) * b).sum())
        sizes = np.argsort(np.abs(a * b)[0])
        orders = [sizes, sizes[::-1], *(random.permutation(64) for _ in range(ATTEMPTS))]
        zero = np.zeros((1, 1), np.float32)
        found = [float(wgmma_values(a[:, o].copy(), b[:, o].copy(), zero)[0, 0]) for o in orders]
        return {"any order": max(_margin(x, exact, band.lo[0, 0], band.hi[0, 0]) for x in found)}


class Float32:
    """One dot of 40 products."""

    def start(self, random: Random) -> Genome:
        """Magnitudes within 2^-20 to 2^20."""
        return {name: _singles(random, 40) for name in "ab"}

    def judge(self, genome: Genome, random: Random) -> dict[str, float]:
        """Chains in random orders, fused or not."""
        a, b = (np.where(np.isfinite(genome[name]), genome[name], 1)[None] for name in "ab")
        band = fp32_dot(point(a), point(b))
        exact = float(np.sum(a.astype(np.longdouble) * b))
        seeds = random.integers(2**32, size=ATTEMPTS)
        found = [float(Shuffled(int(s)).dot(a, b, over="tokens")[0, 0]) for s in seeds]
        return {"any order": max(_margin(x, exact, band.lo[0, 0], band.hi[0, 0]) for x in found)}


class Attention:
    """A whole call of 5 queries and 9 keys, one or two query heads on a key head."""

    def start(self, random: Random) -> Genome:
        """BF16 numbers around 1, a contract and an order."""
        base, order = (("article", "channels"), ("bundled", "channels"), ("bundled", "free"))[
            random.integers(3)
        ]
        mode, cast = DELTAS[random.integers(len(DELTAS))], DS_CASTS[random.integers(2)]
        changes = {"delta": mode, "ds_cast": cast}
        if mode == "associated":
            changes["normaliser"] = "codes"
        causal, heads = bool(random.integers(2)), int(random.integers(1, 3))
        problem = Problem(1, heads, 1, 5, 9, 32, causal=causal)
        shapes = problem.shapes()
        spread = 2.0 ** random.integers(-2, 4)
        tensors = {n: _bf16(random, shapes[n], spread if n == "q" else 1.0) for n in "qkv"}
        return {
            **tensors,
            "do": _bf16(random, shapes["do"], 1.0),
            "contract": get_contract(base, **changes),
            "order": order,
            "problem": problem,
        }

    def judge(self, genome: Genome, random: Random) -> dict[str, float]:
        """Every bound, by one conforming kernel."""
        contract: Contract = genome["contract"]
        problem: Problem = genome["problem"]
        inputs = Inputs(**{n: _finite(genome[n]) for n in ("q", "k", "v", "do")})
        makers = conforming(contract, genome["order"])
        kernel = makers[random.integers(len(makers))](int(random.integers(2**32)))
        bands = enclosure(contract, problem, inputs, order=genome["order"])
        with np.errstate(all="ignore"):
            run = interpret(contract, problem, inputs, kernel, internals=True)
        margins = {
            f"enclosure {name}": float(compare(array, bands[name]).margin.max(initial=0))
            for name, array in run.outputs.items()
        }
        outputs, inside = run.outputs, run.internals
        if inside is None or not all(np.isfinite(x).all() for _, x in outputs.items()):
            return margins
        book = ledger(contract, problem, inputs=inputs, internals=inside, outputs=outputs)
        margins |= {f"ledger {name}": _rows(book, name) for name in book.names}
        norms = measure(contract, problem, inputs)
        for cast in (False, True):
            total = book.residual + (book.values["cast"] if cast else 0.0)
            form = residual(contract, problem=problem, norms=norms, cast=cast)
            margins[f"closed {form.output}"] = _share(total, form.value)
        if random.integers(8) == 0:  # exact references are slow
            margins |= _closed(contract, problem, inputs, run.outputs)
        return margins


def _closed(contract: Contract, problem: Problem, inputs: Inputs, outputs: Any) -> dict[str, float]:
    norms = measure(contract, problem, inputs)
    exact_delta = replace(contract, delta="matched")
    margins = {}
    for reference, casts in (("operands", frozenset({"operands"})), ("inputs", frozenset[str]())):
        exact = interpret(exact_delta, problem, inputs, Exact(casts)).values
        for name in OUTPUTS:
            form = closed_form(name, contract, problem=problem, norms=norms, reference=reference)
            error = (getattr(outputs, name) - exact[name])[np.isfinite(exact[name])]
            margins[f"closed {name} ({reference})"] = _share(error, form.value)
    return margins


TARGETS: dict[str, Target] = {
    "tensor-core": TensorCore(),
    "float32": Float32(),
    "attention": Attention(),
}
# Evaluations before the next target has its turn. A call costs as much as 22 dots of the tensor
# core or 34 in float32, and most bounds are about calls: they get two thirds of a round's time.
ROUND = {"tensor-core": 225, "float32": 350, "attention": 40}


def climb(
    target: Target, scores: dict[str, Score], name: str, *, evaluations: int, random: Random
) -> None:
    """Hill climbing with restarts, for a number of evaluations."""
    left = evaluations
    while left > 0:
        genome = target.start(random)
        best, idle, goal = -1.0, 0, ""
        while idle < PATIENCE and left > 0:
            left -= 1
            trial = mutate(genome, random) if goal else genome
            margins = target.judge(trial, random)
            for bound, margin in margins.items():
                _note(scores, f"{name}: {bound}", margin, trial)
            goal = goal or str(random.choice(sorted(margins)))
            reached = margins.get(goal, -1.0)
            genome, best, idle = (trial, reached, 0) if reached > best else (genome, best, idle + 1)


def _note(scores: dict[str, Score], bound: str, margin: float, genome: Genome) -> None:
    score = scores.setdefault(bound, Score())
    score.evaluations += 1
    score.best = max(score.best, margin)
    if margin > 1:
        score.violations += 1
        score.witness = score.witness or repr(
            {k: v.tolist() if hasattr(v, "tolist") else str(v) for k, v in genome.items()}
        )


def mutate(genome: Genome, random: Random) -> Genome:
    """A few elements changed: a bit flipped, a sign, a copy, a fresh value, a power of two."""
    child = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in genome.items()}
    names = [k for k, v in child.items() if isinstance(v, np.ndarray)]
    array = child[names[random.integers(len(names))]].reshape(-1)
    for _ in range(random.integers(1, 5)):
        i, j = random.integers(array.size, size=2)
        if array.dtype == np.uint8:
            flipped = array[i] ^ np.uint8(1 << random.integers(8))
            array[i] = array[j] if random.integers(3) == 0 else flipped
            array[i] = 0 if array[i] & 0x7F == 0x7F else array[i]
        else:
            _mutate_float(array, int(i), int(j), random)
    return child


def _mutate_float(array: F32, i: int, j: int, random: Random) -> None:
    bits = array.view(np.uint32)
    kind = random.integers(4)
    if kind == 0:
        array[i] = array[j]
    elif kind == 1:
        bits[i] ^= np.uint32(1 << 31)
    elif kind == 2:
        bits[i] ^= np.uint32(1 << random.integers(16, 24))
    else:
        array[i] = array[i] * np.float32(2.0 ** random.integers(-3, 4))


def _codes(random: Random, count: int) -> Any:
    codes = random.integers(0, 256, count).astype(np.uint8)
    return np.where(codes & 0x7F == 0x7F, 0, codes).astype(np.uint8)


def _singles(random: Random, count: int) -> F32:
    exponent = 2.0 ** random.integers(-20, 21, count)
    return (random.standard_normal(count) * exponent).astype(np.float32)


def _bf16(random: Random, shape: tuple[int, ...], spread: float) -> F32:
    x = np.asarray(random.standard_normal(shape) * spread, np.float32)
    return _cut(x)


def _cut(x: F32) -> F32:
    return (x.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def _finite(x: F32) -> F32:
    cut = _cut(np.ascontiguousarray(x))
    return np.where(np.abs(cut) < 1e4, cut, np.float32(1.0)).astype(np.float32)


def _margin(x: float, exact: float, lo: float, hi: float) -> float:
    return float(margin_of(x - exact, hi - exact if x > exact else exact - lo))


def _share(error: F64, bound: float) -> float:
    return float(margin_of(error, bound).max(initial=0.0))


def _rows(book: Ledger, name: str) -> float:
    return float(book.margin(name).max(initial=0.0))


@dataclass
class Search:
    """What a search has found, by bound, and the CPU time it took."""

    scores: dict[str, Score] = field(default_factory=dict)
    cpu_seconds: float = 0.0

    def add(self, other: Search) -> None:
        """Counts what another search has found."""
        self.cpu_seconds += other.cpu_seconds
        for bound, theirs in other.scores.items():
            mine = self.scores.setdefault(bound, Score())
            mine.evaluations += theirs.evaluations
            mine.best = max(mine.best, theirs.best)
            mine.violations += theirs.violations
            mine.witness = mine.witness or theirs.witness

    def to_json(self) -> dict[str, Any]:
        """Plain data for the record."""
        rows = {
            bound: {
                "evaluations": s.evaluations,
                "best_margin": round(s.best, 4),
                "violations": s.violations,
                **({"witness": s.witness} if s.witness else {}),
            }
            for bound, s in sorted(self.scores.items())
        }
        return {"cpu_seconds": round(self.cpu_seconds), "bounds": rows}


def search(part: Part, rounds: int, seed: int) -> Search:
    """Part i of n of a search: seeds of its own, its share of the rounds."""
    found, start = Search(), time.process_time()
    random = np.random.default_rng((seed, *part))
    for _ in range(part[0], rounds, part[1]):
        for name, target in TARGETS.items():
            climb(target, found.scores, name, evaluations=ROUND[name], random=random)
    found.cpu_seconds = time.process_time() - start
    return found


def search_all(rounds: int, *, seed: int, workers: int) -> Search:
    """A whole search.

    Args:
        rounds: Rounds of all workers together.
        seed: Seed of all of them.
        workers: Processes.
    """
    whole = Search()
    for found in parallel(workers, search, rounds, seed):
        whole.add(found)
    return whole
