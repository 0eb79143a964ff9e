"""The emulator with a fault planted in it, as a kernel under test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any

from dmverify.conformance.adapter import Kernel
from dmverify.conformance.kernels.emulator import Emulator
from dmverify.lab.mutants.fault import Fault, Plant
from dmverify.spec.arithmetic import Bits
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention import Interpretation, interpret
from dmverify.spec.case import Case
from dmverify.spec.contracts import get_contract
from dmverify.spec.recording import Provenance

_STEPS = "dmverify.spec.attention"


class Planted(Emulator):
    """The emulator, wrong in one place (see ``dmverify.conformance.adapter.Kernel``).

    One interpretation of a case answers forward, backward and internals.

    Args:
        name: For reports.
        plant: What is changed.
    """

    is_specification = False

    def __init__(self, name: str, plant: Plant) -> None:
        self._name, self._plant = name, plant
        self._known: tuple[tuple[str, str], Interpretation] | None = None

    @property
    def info(self) -> Provenance:
        """Named after the fault."""
        return Provenance(kernel=self._name)

    def _run(self, case: Case, *, internals: bool = False) -> Interpretation:
        key = (case.id, case.contract)
        if self._known is None or self._known[0] != key:
            self._known = key, run_planted(self._plant, case)
        return self._known[1]


def kernel_of(fault: Fault) -> Kernel:
    """A fresh kernel with the fault."""
    return Planted(fault.id, fault.plant) if isinstance(fault.plant, Plant) else fault.plant()


def run_planted(plant: Plant, case: Case) -> Interpretation:
    """The bits that the specification would give, were it wrong in this place."""
    contract = replace(get_contract(case.contract), **plant.contract)
    problem = plant.problem(case.problem) if plant.problem else case.problem
    inputs = plant.inputs(case.inputs) if plant.inputs else case.inputs
    arithmetic: Arithmetic = plant.arithmetic(Bits()) if plant.arithmetic else Bits()
    with _replaced(plant, case):
        run = interpret(contract, problem, inputs, arithmetic, internals=True)
    return replace(run, outputs=plant.outputs(run.outputs, case)) if plant.outputs else run


@contextmanager
def _replaced(plant: Plant, case: Case) -> Iterator[None]:
    """Steps and constants exchanged in the modules that look them up; always put back."""
    kept: list[tuple[Any, str, Any]] = []
    try:
        for path in (*plant.steps, *plant.constants):
            owner, name = _located(path)
            original = getattr(owner, name)
            kept.append((owner, name, original))
            new = plant.constants[path] if path in plant.constants else None
            setattr(owner, name, _step(plant.steps[path], original, case) if new is None else new)
        yield
    finally:
        for owner, name, original in reversed(kept):
            setattr(owner, name, original)


def _step(step: Any, original: Any, case: Case) -> Any:
    # A function and not a partial, so that it binds to its object where the step is a method.
    def changed(*args: Any, **named: Any) -> Any:
        return step(original, case, *args, **named)

    return changed


def _located(path: str) -> tuple[Any, str]:
    """The module or class that holds the last part of a path, and that part."""
    module, *inside, name = path.split(".")
    owner: Any = import_module(f"{_STEPS}.{module}")
    for part in inside:
        owner = getattr(owner, part)
    return owner, name
