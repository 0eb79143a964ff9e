"""Which delta a kernel takes: the recovered row sums regressed on what each kind predicts.

Rows that see at least ``FEWEST_KEYS`` keys and whose store noise is at most ``LEGIBLE`` of their
sum_j |dS|, each divided by that plus abs(shortcut) + abs(gradient): a shortcut that leaves x adds
x P to dS, so the noise of its cast grows with it. (The divisor takes nothing from the kernel's
answer but O, so it favours no mode.) The coordinates of ``expected`` are the columns; a coefficient
says how much of it the kernel leaves in its row sums:

| mode | shortcut | gradient | store | verdict |
|---|---|---|---|---|
| matched (renormalized, shifted, associated) | 0 | 0 | 0 | matched |
| consistent | 1 | 0 | 0 | consistent |
| consistent, O in E4M3 | 1 | 0 | 1 | consistent |
| stale | 1 | 1 | 0 | stale |
| stale, O in E4M3 | 1 | 1 | 1 | stale |

A mode is accepted when every coefficient lies within ``NEAR`` of its word and is known to within
``NEAR``, at the largest offset of V, and no other offset contradicts it. Size takes no part: a
small residual with no known coefficient is undecided. So is an answer that is not attention (gain
and cosine with the model), and a mode that the shapes of the rows (``lean``) contradict: a dK whose
columns were made to sum to zero looks matched in its row sums only. Where no row sum stands out of
the store's rounding, matched has to be known from the shapes too.

Columns that vanish (O already in E4M3; dO exact) are left out; modes that differ only there are
one. Where a contract leaves dO as it is (``modes_of``), stale is consistent and called so. Not
covered: kinds that are no combination of the coordinates, which give undecided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dmverify.conformance.tomography.expected import COORDINATES
from dmverify.conformance.tomography.regression import Estimate, correlation, slopes
from dmverify.conformance.tomography.scan import Scan
from dmverify.spec.case import F64
from dmverify.spec.contracts import Contract
from dmverify.spec.lemmas import rests_on

FEWEST_KEYS = 16
FEWEST_ROWS = 48
LEGIBLE = 0.03  # sharp rows have a tiny dS, and other rows' rounding drowns their row sum
NEAR = 0.25
GAIN = (0.7, 1.4)
COSINE = 0.7
BLIND = 2.0  # times the store's standard deviation
UNDECIDED = "undecided"


@dataclass(frozen=True)
class Mode:
    """One row of the table above, coefficients in the order of ``COORDINATES``."""

    name: str
    verdict: str
    coefficients: tuple[float, float, float]


MODES = (
    Mode("matched", "matched", (0, 0, 0)),
    Mode("consistent", "consistent", (1, 0, 0)),
    Mode("consistent, O in E4M3", "consistent", (1, 0, 1)),
    Mode("stale", "stale", (1, 1, 0)),
    Mode("stale, O in E4M3", "stale", (1, 1, 1)),
)


def modes_of(contract: Contract) -> tuple[Mode, ...]:
    """The modes that differ under a contract: nothing is stale where dO is not quantised."""
    if contract.schedule.operands != "bf16":
        return MODES
    return tuple(mode for mode in MODES if mode.verdict != "stale")


@dataclass(frozen=True)
class ModeFit:
    """The recovered row sums against one mode's prediction alone.

    Attributes:
        mode: Its name.
        slope: Slope of the row sums on the prediction; None where it predicts 0.
        correlation: Correlation of the two; None where it predicts 0.
        left: Root mean square of what it does not explain, over that of the row sums.
    """

    mode: str
    slope: Estimate | None
    correlation: Estimate | None
    left: float


@dataclass(frozen=True)
class Fit:
    """One scan, regressed.

    Attributes:
        offset: Offset added to V.
        rows: Number of rows that took part.
        coefficients: By coordinate; those that vanish are missing.
        shapes: The same of the rows' shapes; empty in the probe form.
        modes: Each alone.
        trouble: Why the scan cannot be trusted, or empty.
    """

    offset: float
    rows: int
    coefficients: dict[str, Estimate]
    shapes: dict[str, Estimate]
    modes: tuple[ModeFit, ...]
    trouble: str


@dataclass(frozen=True)
class Decision:
    """What the fits say: a verdict, the mode behind it, and why."""

    verdict: str
    mode: str
    reason: str


def accepts(estimates: dict[str, Estimate], mode: Mode) -> bool:
    """Whether every coefficient is known and near the mode's."""
    return all(
        abs(estimate.value - word) <= NEAR and estimate.half_width <= NEAR
        for estimate, word in _pairs(estimates, mode)
    )


def contradicts(estimates: dict[str, Estimate], mode: Mode) -> bool:
    """Whether a coefficient's interval lies apart from the mode's by more than ``NEAR``."""
    return any(
        max(estimate.low - word, word - estimate.high) > NEAR
        for estimate, word in _pairs(estimates, mode)
    )


def _pairs(estimates: dict[str, Estimate], mode: Mode) -> list[tuple[Estimate, float]]:
    words = dict(zip(COORDINATES, mode.coefficients, strict=True))
    return [(estimate, words[name]) for name, estimate in estimates.items()]


def fit(scan: Scan, modes: Sequence[Mode] = MODES) -> Fit:
    """Regresses one scan."""
    used = _used(scan)
    t, lean = (_relative(scan, x, used) for x in (scan.value, scan.lean))
    columns = {name: _relative(scan, scan.coordinates[name], used) for name in COORDINATES}
    shown = {name: x for name, x in columns.items() if (x != 0).any()}
    trouble = _trouble(scan, len(t))
    known = not trouble and len(shown) > 0
    x = np.stack(list(shown.values()), 1) if known else np.zeros((0, 0))
    return Fit(
        offset=scan.offset,
        rows=len(t),
        coefficients=dict(zip(shown, slopes(x, t), strict=True)) if known else {},
        shapes=dict(zip(shown, slopes(x, lean), strict=True)) if known and _from_dk(scan) else {},
        modes=tuple(_alone(mode, columns, t) for mode in modes) if known else (),
        trouble=trouble,
    )


def decide(scans: Sequence[Scan], fits: Sequence[Fit], modes: Sequence[Mode] = MODES) -> Decision:
    """The verdict over the scans of a run, out of some modes."""
    for one in fits:
        if one.trouble or not one.coefficients:
            reason = one.trouble or "no coordinate differs from 0"
            return Decision(UNDECIDED, "", f"at offset {one.offset:g}: {reason}")
    main = max(range(len(fits)), key=lambda i: abs(fits[i].offset))
    accepted = [mode for mode in modes if accepts(fits[main].coefficients, mode)]
    if len({mode.verdict for mode in accepted}) != 1:
        return Decision(UNDECIDED, "", _unknown(fits[main], accepted))
    mode = accepted[0]
    for one in fits:
        if contradicts(one.coefficients, mode):
            reason = f"{mode.name} at offset {fits[main].offset:g}, contradicted at {one.offset:g}"
            return Decision(UNDECIDED, mode.name, reason)
    shapes = fits[main].shapes
    if contradicts(shapes, mode):
        reason = f"row sums say {mode.name}, the shapes of the rows do not: {_words(shapes)}"
        return Decision(UNDECIDED, mode.name, reason)
    if mode.verdict == "matched" and _blind(scans[main]) and not accepts(shapes, mode):
        reason = f"no row sum stands out of the store's rounding; the shapes say {_words(shapes)}"
        return Decision(UNDECIDED, mode.name, reason)
    words = _words(fits[main].coefficients)
    return Decision(mode.verdict, mode.name, f"at offset {fits[main].offset:g}: {words}")


def _used(scan: Scan) -> np.typing.NDArray[np.bool_]:
    legible = scan.sigma < LEGIBLE * scan.size
    return np.asarray((scan.seen >= FEWEST_KEYS) & legible)


def _relative(scan: Scan, x: F64, used: np.typing.NDArray[np.bool_]) -> F64:
    moved = np.abs(scan.coordinates["shortcut"]) + np.abs(scan.coordinates["gradient"])
    return np.asarray(x[used] / (scan.size + moved)[used])


def _trouble(scan: Scan, rows: int) -> str:
    if rows < FEWEST_ROWS:
        return f"{rows} legible rows that see {FEWEST_KEYS} keys; {FEWEST_ROWS} are needed"
    for name, like in scan.likeness.items():
        if not (GAIN[0] <= like.gain <= GAIN[1] and like.cosine >= COSINE):
            return (
                f"{name} is not attention's: gain {like.gain:.3g}, cosine {like.cosine:.3g} with "
                f"the model; {GAIN[0]} to {GAIN[1]} and at least {COSINE} are expected"
            )
    return ""


def _alone(mode: Mode, columns: dict[str, F64], t: F64) -> ModeFit:
    parts = zip(mode.coefficients, columns.values(), strict=True)
    x = np.sum([word * column for word, column in parts], axis=0)
    scale = float(np.sqrt((t**2).mean()))
    left = float(np.sqrt(((t - x) ** 2).mean())) / scale if scale else 0.0
    if not (x != 0).any():
        return ModeFit(mode.name, None, None, left)
    return ModeFit(mode.name, slopes(x[:, None], t)[0], correlation(x, t), left)


def _from_dk(scan: Scan) -> bool:
    return "dk" in scan.likeness


def _words(estimates: dict[str, Estimate]) -> str:
    return ", ".join(f"{name} {estimate}" for name, estimate in estimates.items())


@rests_on("projected-dk")
def _blind(scan: Scan) -> bool:
    """Whether the row sums of a scan are no larger than what the store's rounding does."""
    used = _used(scan)
    seen, store = (_relative(scan, x, used) for x in (scan.value, scan.sigma))
    return _from_dk(scan) and bool((seen**2).mean() <= BLIND**2 * (store**2).mean())


def _unknown(one: Fit, accepted: Sequence[Mode]) -> str:
    if accepted:
        return "these inputs do not tell apart " + " and ".join(mode.name for mode in accepted)
    return f"no mode's coefficients at offset {one.offset:g}: {_words(one.coefficients)}"
