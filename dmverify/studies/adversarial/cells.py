"""What ``study adversarial`` measures: one attack a cell, each in a file of its own.

A cell is one seed's attack on dQ under one contract. Whoever runs the study takes the next cell
that has no file and that nobody else holds, so that any number of processes, also of machines that
share a folder, work on one run, and a run that was stopped goes on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from dmverify import __version__
from dmverify.attack.corpus import Entry, Found, digest, read_entry, write_entry
from dmverify.attack.evaluate import Evaluator
from dmverify.attack.limits import Limits, get_limits, near
from dmverify.attack.objective import AGAINST, Objective
from dmverify.attack.search import Attempt, attack, baseline
from dmverify.attack.stack import Stack
from dmverify.attack.starts import from_capture, repeated
from dmverify.files import write_atomically
from dmverify.spec.contracts import DELTAS, DS_CASTS
from dmverify.spec.problem import Problem
from dmverify.studies.adversarial.kernel import EveryMode
from dmverify.studies.resume import held

MODES = ("stale", "consistent", "matched", "associated")
"""Those that are attacked; renormalized and shifted leave what matched leaves, to last bits."""
HEAD_DIM, TOKENS = 32, 64
EVALUATIONS = {32: 16_000, 64: 6_000, 128: 3_000, 256: 800, 512: 150, 1024: 60}
SHORTEST = min(EVALUATIONS)
NEAR_EVALUATIONS = 5_000
CAPTURES = ("minilm-short/layer5", "chars-step800/layer1")
BOXES = (0.01, 0.03, 0.10)
DRAWN = 10  # one in so many evaluations is spent on drawing alone


@dataclass(frozen=True)
class Cell:
    """One attack.

    Attributes:
        delta: Mode.
        ds_cast: Cast of dS.
        against: inputs or operands.
        place: A number of tokens under statistical limits, or a capture.
        within: Half of the box around the capture, or 0.
        seed: Seed of the attack.
        evaluations: Evaluations of the attack.
    """

    delta: str
    ds_cast: str
    against: str
    place: int | str
    within: float
    seed: int
    evaluations: int

    @property
    def name(self) -> str:
        """Name of its file."""
        where = str(self.place).replace("/", "-")
        words = (self.delta, self.ds_cast, self.against, where, f"{self.within:g}", self.seed)
        return "_".join(map(str, words))

    @property
    def tokens(self) -> int:
        """Queries and keys."""
        return TOKENS if isinstance(self.place, str) else self.place

    @property
    def contract(self) -> str:
        """The kernel's contract; the associated delta belongs to an O over the sum of the codes."""
        codes = ",normaliser=codes" if self.delta == "associated" else ""
        return f"article:delta={self.delta},ds_cast={self.ds_cast}{codes}"

    def problem(self) -> tuple[Problem, Stack | None]:
        """Its sizes, and the capture."""
        if isinstance(self.place, str):
            return from_capture(self.place, TOKENS)
        return Problem(1, 1, 1, self.place, self.place, HEAD_DIM, causal=False), None


def list_cells(seeds: Sequence[int], lengths: Sequence[int], share: float = 1.0) -> list[Cell]:
    """Every cell, seed after seed, short ones first.

    Args:
        seeds: Seeds of the attacks.
        lengths: Numbers of tokens, keys of ``EVALUATIONS``.
        share: Share of the usual evaluations.
    """
    modes = list(product(MODES, DS_CASTS, AGAINST))
    found = []
    for seed in seeds:
        boxes = product(CAPTURES, BOXES, modes)
        few = round(NEAR_EVALUATIONS * share)
        found += [Cell(*mode, place, within, seed, few) for place, within, mode in boxes]
        for length, mode in product(lengths, modes):
            found.append(Cell(*mode, length, 0.0, seed, round(EVALUATIONS[length] * share)))
    return sorted(found, key=lambda cell: (cell.seed, cell.tokens))


def measure(cell: Cell, folder: Path | None = None) -> dict[str, Any]:
    """Attacks; JSON values: the cell, the worst, what drawing finds, other modes on the worst.

    Args:
        cell: What to attack.
        folder: Where worst inputs of the shortest length are kept, so that longer cells of any
            process start from them; what they start from is the same without.
    """
    _, centre = cell.problem()
    evaluator, start = _evaluator(cell), _start(cell, folder)
    found = attack(evaluator, seed=cell.seed, evaluations=cell.evaluations, start=start)
    if folder is not None and cell.place == SHORTEST:
        _keep_worst(folder, cell, found)
    few = max(cell.evaluations // DRAWN, 1)
    return asdict(cell) | {
        "worst": found.best.value,
        "drawn": baseline(evaluator, seed=cell.seed, evaluations=few),
        "as it is": None if centre is None else float(evaluator.values(centre)[0]),
        "start": None if start is None else float(evaluator.values(start)[0]),
        "engines": found.gains,
        "others": _others(cell, found.worst) if cell.place == SHORTEST else {},
    }


def _evaluator(cell: Cell) -> Evaluator:
    problem, centre = cell.problem()
    limits: Limits = get_limits("statistical")
    if centre is not None:
        limits = near(centre, cell.within)
    return Evaluator(EveryMode(), cell.contract, problem, Objective("dq", cell.against), limits)


def _start(cell: Cell, folder: Path | None) -> Stack | None:
    """The capture, or the worst input of the shortest length, its tokens repeated."""
    if isinstance(cell.place, str):
        return cell.problem()[1]
    if cell.place == SHORTEST:
        return None
    share = cell.evaluations / EVALUATIONS[cell.place]
    few = max(round(EVALUATIONS[SHORTEST] * share), 1)
    short = replace(cell, place=SHORTEST, evaluations=few)
    worst = None if folder is None else _kept_worst(folder, short)
    if worst is None:
        worst = attack(_evaluator(short), seed=cell.seed, evaluations=few).worst
    return repeated(worst, cell.place // SHORTEST)


def _keep_worst(folder: Path, cell: Cell, attempt: Attempt) -> None:
    worst, value = attempt.worst, attempt.best.value
    words = ("simulation", cell.contract, "dq", cell.against, "statistical")
    rest = (value, cell.seed, cell.evaluations, __version__, digest(worst))
    entry = Entry(cell.problem()[0], worst, Found(*words, *rest))
    write_entry(_worst_file(folder, cell), entry)


def _kept_worst(folder: Path, cell: Cell) -> Stack | None:
    path = _worst_file(folder, cell)
    return read_entry(path).stack if path.exists() else None


def _worst_file(folder: Path, cell: Cell) -> Path:
    return folder / f"{cell.name}_{cell.evaluations}.safetensors"


def _others(cell: Cell, worst: Stack) -> dict[str, float]:
    """The same input under every mode and cast, each against its own operands."""
    problem, _ = cell.problem()
    found = {}
    for delta, ds_cast in product(DELTAS, DS_CASTS):
        other = Cell(delta, ds_cast, cell.against, cell.place, cell.within, cell.seed, 0)
        objective = Objective("dq", cell.against)
        loose = get_limits("stress")
        asked = Evaluator(EveryMode(), other.contract, problem, objective, loose)
        found[f"{delta} {ds_cast}"] = float(asked.values(worst)[0])
    return found


def taken(cells: Sequence[Cell], folder: Path) -> Iterator[Cell]:
    """Cells without a file that nobody else holds; each is held until the next is asked for."""
    folder.mkdir(parents=True, exist_ok=True)
    for cell in cells:
        with held(folder / f"{cell.name}.lock") as mine:
            if mine and not _file(folder, cell).exists():
                yield cell


def keep(folder: Path, cell: Cell, found: dict[str, Any]) -> None:
    """Writes what a cell's attack found."""
    write_atomically(_file(folder, cell), json.dumps(found) + "\n")


def kept(folder: Path, cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """What the files say, of the cells that have one."""
    files = (_file(folder, cell) for cell in cells)
    return [json.loads(file.read_text()) for file in files if file.exists()]


def _file(folder: Path, cell: Cell) -> Path:
    return folder / f"{cell.name}.json"
