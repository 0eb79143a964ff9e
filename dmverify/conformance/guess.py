"""``guess``: the named contract that a kernel is closest to, by what it answers.

1. The kernel answers a few small cases, as it does under its own contract.
2. The answers are judged by the bands of every named contract. O and LSE tell operands, softmax and
   P codes; they do not depend on delta.
3. Of the contracts whose O and LSE come closest, every delta and dS cast is tried, which the
   gradients tell.

A candidate's share is the part of the elements that lie outside its bands, summed over the outputs;
0 conforms on these cases. Between equal shares the narrower bands come first: what many contracts
allow says little. Not covered: contracts that are not named, of which the nearest may be far.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dmverify.conformance.adapter import Kernel
from dmverify.conformance.checks.judgement import FORWARD, GRADIENTS
from dmverify.conformance.checks.margins import compare
from dmverify.conformance.contracts import resolve_contract
from dmverify.conformance.families import generate
from dmverify.conformance.session import Session
from dmverify.errors import ContractError, DmverifyError, KernelError
from dmverify.spec.case import Case, Outputs
from dmverify.spec.contracts import CONTRACTS, DELTAS, DS_CASTS, Contract, get_contract
from dmverify.spec.enclosure import Band, enclosure

_SIZES = "batch=1,heads=2,kv_heads=1,queries=80,keys=80,head_dim=32"
CASES = (
    f"gaussian/spread-1,{_SIZES}@0",
    f"gaussian/spread-4,{_SIZES},causal=1@1",
    f"offset/k-1,{_SIZES}@2",
)
LEADERS = 2  # contracts of which every mode is tried
OUTPUTS = (*FORWARD, *GRADIENTS)


@dataclass(frozen=True)
class Candidate:
    """A contract and what the kernel's answers are by it.

    Attributes:
        contract: The contract.
        outside: By output, the share of the elements that are outside its band, over all cases.
        width: Mean width of its bands over the output's root mean square, over all outputs.
    """

    contract: Contract
    outside: dict[str, float]
    width: float

    @property
    def share(self) -> float:
        """The shares of all outputs together: 0 conforms, 5 has no element right."""
        return sum(self.outside.values())

    @property
    def conforms(self) -> bool:
        """Whether no element of any case is outside."""
        return self.share == 0


def guess(kernel: Kernel, *, cases: Sequence[str] = CASES) -> tuple[Candidate, ...]:
    """The named contracts and modes, the closest to the kernel's answers first.

    Args:
        kernel: The kernel; it is asked under its own contract.
        cases: Ids of the cases.

    Raises:
        KernelError: If it declines all cases, or raises.
        DmverifyError: As the kernel's contract or an id does.
    """
    answered = [*_answers(kernel, cases)]
    if not answered:
        raise KernelError(
            f"{len(cases)} small cases, all declined",
            rule="a contract is guessed from answers",
            fix="serve small cases with two query heads on one key head, or name the contract",
        )
    names = _names(answered)
    plain = [_judged(contract, answered, names) for contract in CONTRACTS.values()]
    forward = [name for name in FORWARD if name in names]
    leaders = sorted(plain, key=lambda one: sum(one.outside[name] for name in forward))[:LEADERS]
    deltas = leaders if len(names) > len(forward) else ()  # a forward pass has none
    modes = (mode for one in deltas for mode in _modes(one.contract))
    return _ranked((*plain, *(_judged(mode, answered, names) for mode in modes)))


def _names(answered: Sequence[tuple[Case, Outputs]]) -> tuple[str, ...]:
    """The outputs that every answer has."""
    return tuple(n for n in OUTPUTS if all(n in outputs.names for _, outputs in answered))


def _answers(kernel: Kernel, cases: Sequence[str]) -> Iterable[tuple[Case, Outputs]]:
    own = resolve_contract(kernel.contract).name
    for case_id in cases:
        case = generate(case_id, contract=own)
        session = Session(kernel, case)
        if session.supports() is None:
            yield case, session.backward()


def _modes(contract: Contract) -> Iterable[Contract]:
    """The contract's other deltas and casts, those that are defined."""
    for delta in DELTAS:
        for cast in DS_CASTS:
            try:
                mode = get_contract(contract.base, delta=delta, ds_cast=cast)
            except ContractError:
                continue
            if mode != contract:
                yield mode


def _judged(
    contract: Contract, answered: Sequence[tuple[Case, Outputs]], names: Sequence[str]
) -> Candidate:
    counts = dict.fromkeys(names, 0.0)
    widths = []
    for case, outputs in answered:
        bands = _bands(contract, case)
        for name in names:
            got = getattr(outputs, name)
            flags = np.ones(got.shape) if bands is None else compare(got, bands[name]).margin > 1
            counts[name] += float(flags.mean()) / len(answered)
            if bands is not None:
                widths.append(_width(bands[name]))
    return Candidate(contract, counts, float(np.mean(widths)) if widths else np.inf)


def _bands(contract: Contract, case: Case) -> dict[str, Band] | None:
    """What the contract allows; None where it has nothing to say about these inputs."""
    try:
        return enclosure(contract, case.problem, case.inputs)
    except DmverifyError:
        return None


def _width(band: Band) -> float:
    with np.errstate(all="ignore"):
        unit = float(np.sqrt(np.nanmean(np.square(band.mid)))) or 1.0
        return float(np.nanmean(band.hi - band.lo)) / unit


def _ranked(found: Iterable[Candidate]) -> tuple[Candidate, ...]:
    return tuple(sorted(found, key=lambda one: (one.share, one.width)))
