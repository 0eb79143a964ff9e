"""What a seeded fault is: one row of the table, with what is planted in the emulator.

The steps of the specification are not copied. A fault is planted in one of these places, and
everything else is the specification's own code:

| place | what is changed |
|---|---|
| ``steps`` | a step function, called with the original and free to change what goes in or out |
| ``constants`` | a number that a step module holds |
| ``contract`` | fields of the contract that the kernel obeys, while it promises the case's |
| ``arithmetic`` | the operations themselves, everywhere |
| ``problem``, ``inputs`` | what the kernel thinks it was asked |
| ``outputs`` | what it stores |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dmverify.conformance.adapter import Kernel
from dmverify.spec.arithmetic.bits import Bits
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.case import Case, Inputs, Outputs
from dmverify.spec.problem import Problem

Step: TypeAlias = Callable[..., Any]
"""``step(original, case, *arguments of the step)``, and returns what the step would."""


@dataclass(frozen=True)
class Plant:
    """What is changed in the emulator.

    Attributes:
        steps: By ``module.name`` below ``dmverify.spec.attention``.
        constants: Numbers by ``module.NAME``.
        contract: Fields that replace those of the promised contract.
        arithmetic: Makes the operations from the Hopper bits.
        problem: The problem that the kernel solves instead.
        inputs: The tensors that it reads.
        outputs: What it stores.
    """

    steps: Mapping[str, Step] = field(default_factory=dict)
    constants: Mapping[str, float] = field(default_factory=dict)
    contract: Mapping[str, Any] = field(default_factory=dict)
    arithmetic: Callable[[Bits], Arithmetic] | None = None
    problem: Callable[[Problem], Problem] | None = None
    inputs: Callable[[Inputs], Inputs] | None = None
    outputs: Callable[[Outputs, Case], Outputs] | None = None


@dataclass(frozen=True)
class Fault:
    """One row.

    Attributes:
        id: The name users see; the CUDA kernel's compile-time fault of the same meaning has it too.
        group: The part of the kernel that is wrong.
        what: The mistake, in words.
        check: Id of the check that names it: this one has to reject it.
        plant: What is changed, or a factory of the whole kernel where it is no change of a run.
        cases: Ids of the cases that hunt it.
        contract: The contract that the kernel promises.
        hidden: Why no bound can see it, if only the comparison of bits does.
    """

    id: str
    group: str
    what: str
    check: str
    plant: Plant | Callable[[], Kernel]
    cases: tuple[str, ...]
    contract: str = "bundled"
    hidden: str = ""
