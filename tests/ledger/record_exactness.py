"""Takes the ledger of 10,000 rows a mode and of trained models, and writes what came out.

python -m tests.ledger.record_exactness

rewrites recorded_exactness.json beside this file. It takes about ten minutes on one core, which is
why the test run repeats a tenth of it and reads the rest from the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from dmverify.conformance.families import generate, list_cases
from dmverify.spec.arithmetic.bits import Bits
from dmverify.spec.arithmetic.floating import Single
from dmverify.spec.attention import interpret
from dmverify.spec.case import Inputs
from dmverify.spec.contracts import Contract
from dmverify.spec.ledger import TERMS_OF_MODE, Ledger, ledger
from dmverify.spec.problem import Problem
from tests.ledger.toy import contract_of, make_inputs

FILE = Path(__file__).with_name("recorded_exactness.json")
COMMAND = "python -m tests.ledger.record_exactness"
LONG = 64  # keys: rows that see as many are counted apart
PROBLEMS = (
    Problem(1, 8, 2, 128, 192, 64),
    Problem(1, 8, 2, 128, 192, 64, causal=False),
    Problem(1, 8, 8, 128, 130, 32),
)
SPREADS = (1.0, 2.0, 4.0, 16.0)
ZERO_SUM = ("matched", "shifted")  # modes whose residual before the cast is small enough to matter

Question = tuple[Problem, Inputs]


def take(contract: Contract, question: Question) -> Ledger:
    """The ledger of one call: Hopper bits where they are defined, else float32."""
    problem, inputs = question
    arithmetic = Bits() if contract.bit_exact else Single()
    made = interpret(contract, problem, inputs, arithmetic, internals=True)
    return ledger(contract, problem, inputs=inputs, internals=made.internals, outputs=made.outputs)


def drawn(count: int) -> Iterator[Question]:
    """``count`` calls of 1,024 rows each, over shapes, spreads and offsets of V."""
    for seed in range(count):
        problem = PROBLEMS[seed % len(PROBLEMS)]
        spread = SPREADS[seed % len(SPREADS)]
        yield problem, make_inputs(problem, seed, spread=spread, offset=float(seed % 2 * 4))


def trained(names: Iterable[str]) -> Iterator[Question]:
    """The captures of these ids."""
    for name in names:
        case = generate(name)
        yield case.problem, case.inputs


def summarise(contract: Contract, questions: Iterable[Question]) -> dict[str, object]:
    """Counts over all rows, and the largest margin of each term."""
    books = [(take(contract, q), q[0]) for q in questions]
    names = books[0][0].names
    return {
        "contract": contract.name,
        "rows": sum(len(b.at) for b, _ in books),
        "rows_of_64_keys": sum(int((p.mask().sum(1)[b.at[:, 2]] >= LONG).sum()) for b, p in books),
        "defined": sum(int(b.defined.sum()) for b, _ in books),
        "exact": sum(int(b.closes.sum()) for b, _ in books),
        "margins": {n: float(max(b.margin(n).max() for b, _ in books)) for n in names},
        "largest_residual": float(
            max(np.max(np.abs(b.residual) / np.maximum(b.size, 1e-300)) for b, _ in books)
        ),
    }


def contracts() -> Iterator[Contract]:
    """Every mode of both contracts, and the zero-sum cast where it is meant to be used."""
    for base in ("article", "bundled"):
        yield from (contract_of(mode, base) for mode in TERMS_OF_MODE)
        yield from (contract_of(mode, base, "zero-sum") for mode in ZERO_SUM)


def record(count: int = 10) -> None:
    """Writes the file."""
    captures = list_cases("capture")
    runs = [
        {
            "drawn": summarise(contract, drawn(count)),
            "captures": summarise(contract, trained(captures[:4] + captures[-6:])),
        }
        for contract in contracts()
    ]
    FILE.write_text(json.dumps({"command": COMMAND, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    record()
