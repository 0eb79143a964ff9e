"""The emulator with a mutation, as a kernel under test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any

from dmverify.conformance.kernels.emulator import Emulator
from dmverify.lab.mutants.emulator.mutation import Call, Mutation, Step
from dmverify.spec.arithmetic import Bits
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention import Interpretation, interpret
from dmverify.spec.case import Case
from dmverify.spec.contracts import get_contract
from dmverify.spec.recording import Provenance

_STEPS = "dmverify.spec.attention"


class Mutated(Emulator):
    """The emulator, wrong in one place (see ``dmverify.conformance.adapter.Kernel``).

    One interpretation of a case answers forward, backward and internals.

    Args:
        name: For reports.
        mutation: What is changed.
    """

    is_specification = False

    def __init__(self, name: str, mutation: Mutation) -> None:
        self._name, self._mutation = name, mutation
        self._known: tuple[tuple[str, str], Interpretation] | None = None

    @property
    def info(self) -> Provenance:
        """Named after the mutant."""
        return Provenance(kernel=self._name)

    def _run(self, case: Case, *, internals: bool = False) -> Interpretation:
        key = (case.id, case.contract)
        if self._known is None or self._known[0] != key:
            self._known = key, run_mutated(self._mutation, case)
        return self._known[1]


def run_mutated(mutation: Mutation, case: Case) -> Interpretation:
    """The bits that the specification would give, were it wrong in this place."""
    contract = replace(get_contract(case.contract), **mutation.contract)
    problem = mutation.problem(case.problem) if mutation.problem else case.problem
    inputs = mutation.inputs(case.inputs) if mutation.inputs else case.inputs
    arithmetic: Arithmetic = mutation.arithmetic(Bits()) if mutation.arithmetic else Bits()
    with _replaced(mutation, case):
        run = interpret(contract, problem, inputs, arithmetic, internals=True)
    return replace(run, outputs=mutation.outputs(run.outputs, case)) if mutation.outputs else run


@contextmanager
def _replaced(mutation: Mutation, case: Case) -> Iterator[None]:
    """Steps exchanged in the modules that look them up; always put back."""
    kept: list[tuple[Any, str, Any]] = []
    try:
        for path, step in mutation.steps.items():
            owner, name = _located(path)
            original = getattr(owner, name)
            kept.append((owner, name, original))
            setattr(owner, name, _step(step, original, case))
        yield
    finally:
        for owner, name, original in reversed(kept):
            setattr(owner, name, original)


def _step(step: Step, original: Any, case: Case) -> Any:
    # A function and not a partial, so that it binds to its object where the step is a method.
    def changed(*args: Any, **named: Any) -> Any:
        return step(Call(original, case, args, named))

    return changed


def _located(path: str) -> tuple[Any, str]:
    """The module or class that holds the last part of a path, and that part."""
    module, *inside, name = path.split(".")
    owner: Any = import_module(f"{_STEPS}.{module}")
    for part in inside:
        owner = getattr(owner, part)
    return owner, name
