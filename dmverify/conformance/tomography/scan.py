"""One scan: every call at one offset of V, put together row by row.

A row's value is sum_m w_m u_m / sum_m w_m^2 over the calls m in which its gradient has weight w_m;
its bar is the same sum of magnitudes. With repeats u is their mean, and their range (largest less
smallest), the observed noise, is added to the bar: the rounding to a stored number is bounded, what
a kernel does differently from call to call is only seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dmverify.conformance.adapter import Kernel
from dmverify.conformance.events import Listener
from dmverify.conformance.families.tomography.designs import Call, design
from dmverify.conformance.families.tomography.setup import Setup
from dmverify.conformance.pipeline import each
from dmverify.conformance.session import Session
from dmverify.conformance.tomography.expected import COORDINATES, Expected, expect
from dmverify.conformance.tomography.readings import Reading, read
from dmverify.conformance.verdict import Finding
from dmverify.errors import AnswerError
from dmverify.spec.case import F64, Case, Outputs
from dmverify.spec.contracts import Contract


@dataclass(frozen=True)
class Likeness:
    """How like the model an output is: <got, model> / <model, model>, and their cosine."""

    gain: float
    cosine: float


@dataclass(frozen=True, eq=False)
class Scan:
    """The rows of one scan, L in all.

    Attributes:
        offset: Offset added to V.
        at: (batch, head, query), (L, 3).
        seen: Number of keys that each row sees.
        value: T = R + cast, the row sum of dS after its cast, (L,) and likewise below.
        bar: Largest error of ``value``, noise included.
        noise: Range over repeats.
        sigma: Standard deviation of the store's error in ``value``, a diagnostic.
        lean: The row sum before the cast, estimated from the row's shape (``expected``); of no
            use in the probe form.
        size: sum_j |dS| of the model, what residuals are divided by.
        coordinates: See ``expected``.
        likeness: How like the model O and the gradient that was read are.
        stored: The gradient's format, as seen.
    """

    offset: float
    at: npt.NDArray[np.int64]
    seen: npt.NDArray[np.int64]
    value: F64
    bar: F64
    noise: F64
    sigma: F64
    lean: F64
    size: F64
    coordinates: dict[str, F64]
    likeness: dict[str, Likeness]
    stored: str


def scan(
    kernel: Kernel, contract: Contract, setup: Setup, *, offset: float, emit: Listener
) -> Scan:
    """Runs the calls at one offset.

    Raises:
        KernelError: If an answer is not finite.
        InputError: If it has a wrong shape or dtype.
        ContractError: If the probes do not survive the contract.
    """
    calls = design(setup, contract.name, offset=offset)
    sums = _Sums(setup)

    def added(call: Call) -> Iterator[Finding]:
        """Asks one call and adds what is read off; nothing is judged, so there are no findings."""
        answers = [_finite(kernel, call.case) for _ in range(setup.repeats)]
        expected = expect(contract, call, answer=answers[0])
        readings = [read(contract, call, outputs=x, expected=expected) for x in answers]
        sums.add(call, expected, readings, answers)
        yield from ()

    for _ in each(((call.case.id, added(call)) for call in calls), emit):
        pass
    return sums.scan(offset)


def _finite(kernel: Kernel, case: Case) -> Outputs:
    session = Session(kernel, case)
    outputs = session.backward()
    if session.lacks_gradients:
        raise NotImplementedError(session.lacks_gradients)
    for name in ("o", "dq", "dk"):
        if not np.isfinite(getattr(outputs, name)).all():
            raise AnswerError(
                f"{name} with NaN or infinity in {case.id}",
                rule="finite inputs of moderate size give finite outputs",
                fix="run 'dmverify verify' on this kernel first",
            )
    return outputs


class _Sums:
    """Sums over the calls, (B, H, N) each."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._shape = setup.problem.shapes()["lse"]
        names = ("weight", "value", "bar", "noise", "variance", "size", "lean", *COORDINATES)
        self._total = {name: np.zeros(self._shape) for name in names}
        self._products = {name: np.zeros(3) for name in ("o", self._gradient)}
        self._stored: dict[str, None] = {}  # in the order of appearance

    @property
    def _gradient(self) -> str:
        return "dq" if self._setup.form == "probe" else "dk"

    def add(
        self, call: Call, expected: Expected, readings: list[Reading], answers: list[Outputs]
    ) -> None:
        """One call with its repeats."""
        values = np.stack([reading.value for reading in readings])
        noise = np.ptp(values, axis=0)
        bar = np.mean([reading.bar for reading in readings], axis=0) + noise
        variance = np.mean([reading.sigma**2 for reading in readings], axis=0)
        w = call.weights
        added = {"weight": w**2, "value": w * values.mean(0), "variance": w**2 * variance}
        added |= {"bar": abs(w) * bar, "noise": abs(w) * noise, "size": abs(w) * expected.size}
        added |= {"lean": w * expected.lean}
        added |= {name: w * x for name, x in expected.coordinates.items()}
        for name, term in added.items():
            self._total[name] += term
        live = (w != 0).swapaxes(1, 2)[..., None]
        for name, products in self._products.items():
            got, model = getattr(answers[0], name).astype(np.float64), expected.outputs[name]
            products += _products(np.where(live, got, 0.0) if name == "o" else got, model)
        self._stored |= dict.fromkeys(reading.stored for reading in readings)

    def scan(self, offset: float) -> Scan:
        """The rows that had a gradient in some call."""
        weight = self._total["weight"]
        at = np.argwhere(weight > 0)
        rows = tuple(at.T)
        mean = {name: (x[rows] / weight[rows]) for name, x in self._total.items()}
        seen = self._setup.problem.mask().sum(1)
        return Scan(
            offset=offset,
            at=at,
            seen=seen[at[:, 2]],
            sigma=np.sqrt(mean["variance"] / weight[rows]),
            coordinates={name: mean[name] for name in COORDINATES},
            likeness={name: _likeness(*x) for name, x in self._products.items()},
            stored=", ".join(self._stored),
            **{name: mean[name] for name in ("value", "bar", "noise", "lean", "size")},
        )


def _products(got: F64, model: F64) -> F64:
    pairs: Iterator[tuple[F64, F64]] = iter(((got, model), (model, model), (got, got)))
    return np.array([float((x * y).sum()) for x, y in pairs])


def _likeness(cross: float, model: float, own: float) -> Likeness:
    if model == 0 or own == 0:
        return Likeness(0.0, 0.0)
    return Likeness(float(cross / model), float(cross / np.sqrt(model * own)))
