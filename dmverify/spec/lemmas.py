"""How a step of the specification says which lemmas it rests on.

``@rests_on("carry-exact")`` above a function is the citation; the lemma, in ``dmverify.proofs``,
names the function in its ``used_by``. A test follows both directions, so that neither a claim
without a proof nor a proof without a use can stay. Terms and bounds cite through their ``lemmas``,
constants through the table's ``source``.

Not covered: whether the step uses the lemma rightly; that is for the reader of both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Step = TypeVar("Step", bound=Callable[..., Any])


def rests_on(*lemmas: str) -> Callable[[Step], Step]:
    """Return a decorator that leaves the function as it is.

    Args:
        lemmas: Ids of lemmas or certificates, written out: the citations are read from the source.

    >>> @rests_on("product-exact")
    ... def twice(x: float) -> float:
    ...     return 2 * x
    >>> twice(4.0)
    8.0
    """

    def keep(step: Step) -> Step:
        return step

    return keep
