"""``tomograph``: a kernel in, the row sums of its dS and the kind of its delta out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dmverify.conformance.adapter import Kernel, Unsupported, require_kernel
from dmverify.conformance.contracts import resolve_contract
from dmverify.conformance.events import Listener, RunStarted, ignore
from dmverify.conformance.families.tomography.designs import design
from dmverify.conformance.families.tomography.setup import Setup
from dmverify.conformance.pipeline import announced
from dmverify.conformance.resolve import resolve_kernel
from dmverify.conformance.tomography.kind import UNDECIDED, Decision, Fit, decide, fit, modes_of
from dmverify.conformance.tomography.regression import Estimate
from dmverify.conformance.tomography.scan import Scan, scan
from dmverify.errors import ContractError, DmverifyError, KernelError
from dmverify.spec.case import F64
from dmverify.spec.contracts import Contract

UNSUPPORTED, ERROR = "unsupported", "error"
PROMISES = {"stale": "stale", "consistent": "consistent"}  # every other delta: matched
QUANTILES = (0.5, 0.9, 1.0)


@dataclass(frozen=True, eq=False)
class Tomogram:
    """What was seen of one kernel.

    Attributes:
        kernel: Its name.
        contract: What it was asked for.
        setup: The inputs.
        promised: The kind of delta that the contract promises.
        decision: The verdict on the kind, with its reason.
        scans: One for each offset; empty if the kernel could not be read.
        fits: Likewise.
    """

    kernel: str
    contract: str
    setup: Setup
    promised: str
    decision: Decision
    scans: tuple[Scan, ...] = ()
    fits: tuple[Fit, ...] = ()

    @property
    def verdict(self) -> str:
        """stale, consistent, matched, undecided, unsupported or error."""
        return self.decision.verdict

    @property
    def exit_code(self) -> int:
        """0 the kind is the promised one, 1 it is another, 3 kernel error, 5 none was found."""
        if self.verdict == ERROR:
            return 3
        if self.verdict in (UNDECIDED, UNSUPPORTED):
            return 5
        return 0 if self.verdict == self.promised else 1

    def to_json(self) -> dict[str, Any]:
        """Ready for ``json.dumps(..., allow_nan=False)``."""
        return {
            "kernel": self.kernel,
            "contract": self.contract,
            "setup": self.setup.to_json(),
            "promised": self.promised,
            "verdict": self.verdict,
            "mode": self.decision.mode,
            "reason": self.decision.reason,
            "scans": [_scan_json(s, f) for s, f in zip(self.scans, self.fits, strict=True)],
        }


def tomograph(
    kernel: str | Kernel,
    contract: str | Contract | None = None,
    *,
    setup: Setup = Setup(),  # noqa: B008 - frozen
    in_process: bool = False,
    listener: Listener = ignore,
) -> Tomogram:
    """Reads the row sums of a kernel's dS from its gradients, and tells its delta.

    Args:
        kernel: A kernel or its name.
        contract: The contract that it is asked to follow, as for ``verify``; None takes its own.
        setup: Sizes, form, offsets.
        in_process: As for ``resolve_kernel``, of a name.
        listener: Called with every event.

    Returns:
        The tomogram; a kernel that raises or answers nonsense is a verdict, not an exception.

    Raises:
        UnknownNameError: For a name that does not exist.
        KernelError: If the kernel cannot be loaded.
    """
    name, under_test = _named(kernel, in_process)
    stated = resolve_contract(under_test.contract if contract is None else contract)
    promised = PROMISES.get(stated.delta, "matched")

    def tomogram(decision: Decision, *found: tuple[Scan, Fit]) -> Tomogram:
        scans, fits = (tuple(x) for x in zip(*found, strict=True)) if found else ((), ())
        return Tomogram(name, stated.name, setup, promised, decision, scans, fits)

    calls = design(setup, stated.name, offset=setup.offsets[0])
    started = RunStarted(name, stated.name, len(calls) * len(setup.offsets))
    try:
        with announced(started, listener):
            support = under_test.supports(calls[0].case)
            if isinstance(support, Unsupported):
                return tomogram(Decision(UNSUPPORTED, "", support.reason))
            found = list(_scans(under_test, stated, setup, listener))
    except (ContractError, NotImplementedError) as error:
        return tomogram(Decision(UNSUPPORTED, "", str(error)))
    except KernelError as error:
        return tomogram(Decision(ERROR, "", str(error)))
    except DmverifyError as error:
        return tomogram(Decision(UNDECIDED, "", str(error)))
    except Exception as error:
        return tomogram(Decision(ERROR, "", f"{type(error).__name__}: {error}"))
    scans, fits = zip(*found, strict=True)
    return tomogram(decide(scans, fits, modes_of(stated)), *found)


def _named(kernel: str | Kernel, in_process: bool) -> tuple[str, Kernel]:
    if isinstance(kernel, str):
        return kernel, resolve_kernel(kernel, in_process=in_process)
    found = require_kernel(kernel, type(kernel).__name__)
    return found.info.kernel, found


def _scans(
    kernel: Kernel, contract: Contract, setup: Setup, listener: Listener
) -> Iterator[tuple[Scan, Fit]]:
    for offset in setup.offsets:
        made = scan(kernel, contract, setup, offset=offset, emit=listener)
        yield made, fit(made, modes_of(contract))


def summary(scan: Scan) -> dict[str, list[float]]:
    """Median, 90th percentile and largest of |T|, bar, noise and sigma over sum|dS|."""
    live = scan.size > 0
    size = scan.size[live]
    parts = {"value": np.abs(scan.value), "bar": scan.bar, "noise": scan.noise, "sigma": scan.sigma}
    return {name: _quantiles(x[live] / size) for name, x in parts.items()}


def _quantiles(x: F64) -> list[float]:
    return [float(q) for q in np.quantile(x, QUANTILES)] if x.size else []


def _scan_json(scan: Scan, fitted: Fit) -> dict[str, Any]:
    rows = zip(scan.at.tolist(), scan.value, scan.bar, scan.size, strict=True)
    return {
        "offset": scan.offset,
        "stored": scan.stored,
        "likeness": {name: asdict(x) for name, x in scan.likeness.items()},
        "relative": summary(scan),
        "trouble": fitted.trouble,
        "rows_used": fitted.rows,
        "coefficients": {name: _estimate(e) for name, e in fitted.coefficients.items()},
        "shapes": {name: _estimate(e) for name, e in fitted.shapes.items()},
        "modes": [
            {
                "mode": m.mode,
                "slope": _estimate(m.slope),
                "correlation": _estimate(m.correlation),
                "left": m.left,
            }
            for m in fitted.modes
        ],
        "rows": [
            {"at": at, "value": float(t), "bar": float(bar), "size": float(size)}
            for at, t, bar, size in rows
        ],
    }


def _estimate(estimate: Estimate | None) -> dict[str, float | None] | None:
    if estimate is None:
        return None
    return {name: x if np.isfinite(x) else None for name, x in asdict(estimate).items()}
