"""What a tomography run asks: sizes, inputs and the form, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from dmverify.errors import InputError
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
        seed: Of the inputs.

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

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise InputError(
                f"form {self.form!r}", rule=f"forms are {', '.join(FORMS)}", fix="name one of them"
            )
        for name in ("batch", "length", "runs", "repeats"):
            if getattr(self, name) < 1:
                raise InputError(
                    f"{name}={getattr(self, name)}", rule=f"{name} is at least 1", fix="pass >= 1"
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
        return Problem(
            batch=self.batch,
            heads=self.heads,
            kv_heads=self.kv_heads,
            queries=self.length,
            keys=self.length,
            head_dim=self.head_dim,
            causal=self.causal,
        )
