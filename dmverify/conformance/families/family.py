"""What a family of adversarial inputs is: one row of the table, with its variants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

from dmverify.conformance.families.draws import Draws
from dmverify.errors import ContractError
from dmverify.spec.case import Inputs
from dmverify.spec.problem import Problem

Builder: TypeAlias = Callable[..., Inputs]
"""``build(draws, problem, **parameters) -> Inputs``."""

Sizes: TypeAlias = Callable[[Draws], Mapping[str, Any]]
"""``sizes(draws) -> problem fields``, which variants and ids may replace."""

FLAGS = MappingProxyType(
    {
        "offset": "tensors have a common offset: rounding errors no longer average out",
        "saturation": "codes at 448 or logits at the end of the range",
        "underflow": "scales, probabilities or products near the smallest numbers",
        "nonfinite": "NaN or infinity in the inputs, or around them in memory",
        "exact": "every intermediate number is exact, so any difference is a fault",
        "ragged": "lengths that are no multiple of a block",
        "empty": "an extent of 0",
        "pairs": "variants of one seed are related; a check compares their outputs",
        "tagged": "the value tells which element it is",
        "strided": "views whose strides a kernel has to honour",
        "on-demand": "large: of the levels, full alone has it, once",
        "channel-blocks": "blocks along the channels: of the levels, contracts with these ask it",
        "other-formats": "points of formats or scales beyond E4M3 by amax: asked as the one above",
        "trained": "operands and gradients of a trained model",
    }
)


@dataclass(frozen=True)
class Variant:
    """One way to build a family's inputs.

    Attributes:
        parameters: Keyword arguments of the builder.
        problem: Problem fields that replace the family's.
        flags: Words of ``FLAGS`` beyond the family's.
    """

    parameters: Mapping[str, Any] = field(default_factory=dict)
    problem: Mapping[str, Any] = field(default_factory=dict)
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Family:
    """One row of the table of families.

    Attributes:
        name: First part of the case ids.
        section: The module of ``dmverify.spec`` whose steps it stresses.
        targets: The fault that it is there to find, in words.
        flags: Words of ``FLAGS`` that hold for every variant.
        problem: Sizes unless a variant or an id says otherwise.
        variants: By name.
        build: Makes the inputs.
        sizes: What a seed draws of the problem; None where the variant alone decides.

    Raises:
        ContractError: A flag that is not in ``FLAGS``.
    """

    name: str
    section: str
    targets: str
    flags: tuple[str, ...]
    problem: Problem
    variants: Mapping[str, Variant]
    build: Builder
    sizes: Sizes | None = None

    def __post_init__(self) -> None:
        for variant in self.variants:
            for flag in self.flags_of(variant):
                if flag not in FLAGS:
                    raise ContractError(
                        f"flag {flag!r} of {self.name}",
                        rule=f"flags are {', '.join(FLAGS)}",
                        fix="use one of them, or add a row to FLAGS",
                    )

    def flags_of(self, variant: str) -> tuple[str, ...]:
        """The flags of one variant, the family's first."""
        return (*self.flags, *self.variants[variant].flags)
