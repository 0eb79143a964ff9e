"""What a tomography run asks: sizes, inputs and the form, as one value."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

import numpy as np

from dmverify.errors import InputError
from dmverify.spec.case import Case
from dmverify.spec.problem import Problem

FORMS = MappingProxyType(
    {
        "groups": "from dK; each run has dO on its own rows, at most D a key head",
        "signs": "from dK; dO on all rows, with Walsh signs from run to run (dS must be odd in dO)",
        "probe": "from dQ; one channel of K is a constant, Q is 0 there (K must not be centred)",
    }
)
"""The three forms, and what each rests on."""

SPACING = 64  # queries of one tensor core chain in the backward's dK: see ``allowance``


@dataclass(frozen=True)
class Setup:
    """One tomography run.

    Attributes:
        form: A word of ``FORMS``.
        batch: Sequences.
        heads: Query heads.
        kv_heads: Key heads.
        length: Queries and keys.
        head_dim: Channels a head.
        causal: Whether the mask is causal.
        spread: Standard deviation of the logits, about.
        offsets: What is added to V ~ N(0, 1), one scan each; the verdict comes from the largest.
        runs: Kernel calls of form ``groups`` for each offset; the other forms set it themselves.
        repeats: Calls with the same inputs, whose spread is the observed noise.
        seed: Seed of the inputs.
        given: A case whose K, V and dO are asked instead of drawn ones; see ``on``.

    Raises:
        InputError: For an unknown form, a count below 1, no offset or a spread that is not > 0.
    """

    form: str = "groups"
    batch: int = 4
    heads: int = 4
    kv_heads: int = 4
    length: int = 256
    head_dim: int = 64
    causal: bool = True
    spread: float = 2.0
    offsets: tuple[float, ...] = (0.0, 4.0)
    runs: int = 8
    repeats: int = 2
    seed: int = 0
    given: Any = field(default=None, repr=False, compare=False)  # Case | None, told from sizes

    @classmethod
    def on(cls, case: Case, **rest: Any) -> Setup:
        """The run on somebody's K, V and dO; queries stay those of the form.

        Args:
            case: Finite BF16 tensors with dO.
            **rest: What is no size.

        Raises:
            InputError: For a case without dO, with codes, that is not finite, or whose keys are all
                alike; as for any other setup.
        """
        problem, inputs = case.problem, case.inputs
        keys = inputs.k - inputs.k.mean(1, keepdims=True) if inputs.k.size else inputs.k
        lacks = {
            "no dO": not case.backward,
            "codes for tensors": bool(inputs.scales),
            "NaN or infinity": not all(np.isfinite(x).all() for _, x in inputs.items()),
            "keys that are all alike": not np.abs(keys).max(initial=0) > 0,
        }
        for what, is_so in lacks.items():
            if is_so:
                raise InputError(
                    f"{case.id} with {what}",
                    rule="row sums of dS are read from finite tensors with dO and several keys",
                    fix="bring q, k, v and do of one call, as BF16 numbers",
                )
        names = ("batch", "heads", "kv_heads", "head_dim", "causal")
        sizes = {name: getattr(problem, name) for name in names}
        return cls(**sizes, length=problem.queries, given=case, **rest)

    def to_json(self) -> dict[str, Any]:
        """Ready for json; of a case that was given, its id."""
        found = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "given"}
        return found if self.given is None else found | {"given": self.given.id}

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise InputError(
                f"form {self.form!r}", rule=f"forms are {', '.join(FORMS)}", fix="name one of them"
            )
        for name in ("batch", "length", "runs", "repeats"):
            if getattr(self, name) < 1:
                raise InputError(
                    f"{name}={getattr(self, name)}",
                    rule=f"{name} is at least 1",
                    fix=f"pass {name}=1 or more",
                )
        if not self.spread > 0 or not self.offsets or self.seed < 0:
            raise InputError(
                f"spread {self.spread}, offsets {self.offsets}, seed {self.seed}",
                rule="the spread is positive, there is an offset, and the seed is not negative",
                fix="pass for example spread=2, offsets=(0, 4), seed=0",
            )
        self.problem  # noqa: B018 - checks the sizes now

    @property
    def problem(self) -> Problem:
        """The attention problem of every call."""
        if isinstance(self.given, Case):
            return self.given.problem
        return Problem(
            batch=self.batch,
            heads=self.heads,
            kv_heads=self.kv_heads,
            queries=self.length,
            keys=self.length,
            head_dim=self.head_dim,
            causal=self.causal,
        )
