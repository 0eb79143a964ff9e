"""What a public rule is: how a suite in use decides that an attention kernel is right.

Each is written from its description and applied to the same outputs as our own checks. A rule
judges whole tensors against references that its suite would make; NaN never satisfies a comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from dmverify.spec.case import F64, Outputs

Judge: TypeAlias = Callable[[F64, F64, F64], bool]
"""``judge(got, reference, rough reference) -> accepted``, for one output."""


@dataclass(frozen=True)
class References:
    """What a suite compares with, by output.

    Attributes:
        exact: Ordinary attention in float64 on the BF16 inputs.
        operands: Attention on the dequantised FP8 operands, nothing else rounded.
        rough: The same for O with normalised P rounded to E4M3, as a low-precision reference.
    """

    exact: Mapping[str, F64]
    operands: Mapping[str, F64]
    rough: Mapping[str, F64]


@dataclass(frozen=True)
class PublicRule:
    """One row.

    Attributes:
        id: The name users see.
        suite: Where it is in use.
        rule: In words.
        judges: The outputs that it looks at, with the judge of each.
        on_operands: Whether the reference is made from the dequantised operands.
    """

    id: str
    suite: str
    rule: str
    judges: Mapping[str, Judge]
    on_operands: bool = False

    def accepted(self, outputs: Outputs, references: References) -> frozenset[str]:
        """The outputs that the suite would call right."""
        due = references.operands if self.on_operands else references.exact
        wide = {name: getattr(outputs, name).astype(np.float64) for name in self.judges}
        with np.errstate(all="ignore"):  # infinities and NaN end in a comparison that is false
            return frozenset(
                name
                for name, judge in self.judges.items()
                if judge(wide[name], due[name], references.rough.get(name, due[name]))
            )

    def accepts(self, outputs: Outputs, references: References) -> bool:
        """Whether the suite would call all outputs right."""
        return self.accepted(outputs, references) == self.judges.keys()
