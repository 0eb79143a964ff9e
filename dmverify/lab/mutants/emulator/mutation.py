"""What a mutation of the emulator is.

The steps of the specification are not copied. One of these places is changed, and everything else
is the specification's own code:

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

from dmverify.spec.arithmetic.bits import Bits
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.case import Case, Inputs, Outputs
from dmverify.spec.problem import Problem

Step: TypeAlias = Callable[..., Any]
"""``step(original, case, *arguments of the step)``, and returns what the step would."""


@dataclass(frozen=True)
class Mutation:
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
