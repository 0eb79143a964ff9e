"""What a mutation of the emulator is.

The steps of the specification are not copied. One of these places is changed, and everything else
is the specification's own code:

| place | what is changed |
|---|---|
| ``steps`` | a step function: what goes into it, or what comes out |
| ``contract`` | fields of the contract that the kernel obeys, while it promises the case's |
| ``arithmetic`` | the operations themselves, everywhere |
| ``problem``, ``inputs`` | what the kernel thinks it was asked |
| ``outputs`` | what it stores |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from inspect import Signature, signature
from typing import Any, TypeAlias

from dmverify.errors import unknown_name
from dmverify.spec.arithmetic.bits import Bits
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.case import Case, Inputs, Outputs
from dmverify.spec.problem import Problem


class Call:
    """A call of a step, its arguments by the names of the step's parameters.

    Args:
        original: The step as the specification has it.
        case: What the kernel was asked.
        args: What the step was given.
        named: What it was given by name.
    """

    def __init__(
        self, original: Callable[..., Any], case: Case, args: Any, named: dict[str, Any]
    ) -> None:
        self.case, self._original = case, original
        self._bound = _signature(original).bind(*args, **named)

    @property
    def given(self) -> dict[str, Any]:
        """Every argument, by name."""
        return dict(self._bound.arguments)

    def __getitem__(self, name: str) -> Any:
        return self._bound.arguments[name]

    def result(self, **changed: Any) -> Any:
        """What the step returns, with these arguments instead of those it was given.

        Raises:
            UnknownNameError: The step has no parameter of such a name.
        """
        parameters = _signature(self._original).parameters
        for name in changed:
            if name not in parameters:
                raise unknown_name("parameter", name, parameters)
        bound = _signature(self._original).bind_partial()
        bound.arguments.update(self._bound.arguments | changed)
        return self._original(*bound.args, **bound.kwargs)


Step: TypeAlias = Callable[[Call], Any]
"""Returns what the step would, were it wrong."""


@dataclass(frozen=True)
class Mutation:
    """What is changed in the emulator.

    Attributes:
        steps: By ``module.name`` below ``dmverify.spec.attention``.
        contract: Fields that replace those of the promised contract.
        arithmetic: Makes the operations from the Hopper bits.
        problem: The problem that the kernel solves instead.
        inputs: The tensors that it reads.
        outputs: What it stores.
    """

    steps: Mapping[str, Step] = field(default_factory=dict)
    contract: Mapping[str, Any] = field(default_factory=dict)
    arithmetic: Callable[[Bits], Arithmetic] | None = None
    problem: Callable[[Problem], Problem] | None = None
    inputs: Callable[[Inputs], Inputs] | None = None
    outputs: Callable[[Outputs, Case], Outputs] | None = None


@cache
def _signature(step: Callable[..., Any]) -> Signature:
    return signature(step)
