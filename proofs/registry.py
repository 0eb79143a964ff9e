"""The register of lemmas: what each one claims, which constant it hangs on, how it is confirmed.

A lemma is a function from its constant to goals. Called with the true constant its goals must be
valid; called with the control constant, which differs by a factor of at most two (or by one format
parameter), every goal that contains it must fail, steps of an induction too, but those named in
``loose``. A lemma whose control also holds proves less than it says. A lemma with a second constant
has goals in which that one is tightened, which must fail as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from dmverify.errors import InputError, unknown_name

Expr: TypeAlias = Any  # z3 carries no types
Number: TypeAlias = Fraction | int
Values: TypeAlias = Mapping[str, Number]


@dataclass(frozen=True)
class Outcome:
    """What a concrete evaluation of a goal found: do the hypotheses hold, does the conclusion."""

    hypotheses: bool
    conclusion: bool


@dataclass(frozen=True)
class Goal:
    """One formula to be valid: hypotheses imply conclusion, for all values of its variables.

    Attributes:
        name: What part of the lemma it is.
        hypotheses: z3 formulas.
        conclusion: z3 formula.
        replay: The same statement on concrete numbers, written without z3. A goal that has one may
            serve as the control.
        guide: Extra formulas that steer the search for a control's model; never used in a proof.
    """

    name: str
    hypotheses: tuple[Expr, ...]
    conclusion: Expr
    replay: Callable[[Values], Outcome] | None = None
    guide: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Sweep:
    """Outcome of an exhaustive run: how many cases, how many violate the claim."""

    cases: int
    failures: int


Build: TypeAlias = Callable[[Fraction], Sequence[Goal]]


@dataclass(frozen=True)
class Lemma:
    """One registered lemma.

    Attributes:
        id: Stable name, cited by bounds.
        statement: Words and formula.
        topic: The part of the mathematics it belongs to.
        used_by: What rests on it, as ``module:object`` paths; each cites the id in its source.
        constant: What the lemma's constant is.
        control: What the control puts in its place.
        kind: "factor" (ratio at most 2) or "format" (a parameter of a number format, changed by 1).
        build: Function from the constant to the goals.
        sweep: Exhaustive run on real arithmetic, as a function of the constant, or None.
        timeout: Seconds allowed to each solver call.
        rests_on: Lemmas whose statement its hypotheses take over.
        loose: Goals that contain the constant and hold under the control too.
        tightened: Goals in which another of the lemma's constants is tightened: none may hold.
    """

    id: str
    statement: str
    topic: str
    used_by: tuple[str, ...]
    constant: Fraction
    control: Fraction
    kind: str
    build: Build
    sweep: Callable[[Fraction], Sweep] | None
    timeout: float
    rests_on: tuple[str, ...] = ()
    loose: tuple[str, ...] = ()
    tightened: Callable[[], Sequence[Goal]] | None = None


_LEMMAS: dict[str, Lemma] = {}


def lemma(
    lemma_id: str,
    statement: str,
    *,
    topic: str,
    used_by: Sequence[str],
    constant: Number,
    control: Number,
    kind: str = "factor",
    sweep: Callable[[Fraction], Sweep] | None = None,
    timeout: float = 60.0,
    rests_on: Sequence[str] = (),
    loose: Sequence[str] = (),
    tightened: Callable[[], Sequence[Goal]] | None = None,
) -> Callable[[Build], Build]:
    """Register the decorated function as the builder of a lemma.

    Raises:
        InputError: The id is taken, the control is not close to the constant, or nothing uses the
            lemma.
    """

    def register(build: Build) -> Build:
        entry = Lemma(
            lemma_id, statement, topic, tuple(used_by), Fraction(constant), Fraction(control),
            kind, build, sweep, timeout, tuple(rests_on), tuple(loose), tightened,
        )  # fmt: skip
        validate(entry)
        if lemma_id in _LEMMAS:
            raise InputError(lemma_id, rule="lemma ids are unique", fix="choose another id")
        _LEMMAS[lemma_id] = entry
        return build

    return register


def validate(entry: Lemma) -> None:
    """Check that an entry can mean something.

    Raises:
        InputError: See ``lemma``.
    """
    rules = (
        (entry.kind in ("factor", "format"), "kind is factor or format", "choose one of the two"),
        (entry.constant != entry.control, "the control differs", "change the constant"),
        (near(entry), "the control is within a factor of 2, or one format step", "bring it closer"),
        (bool(entry.used_by), "something uses the lemma", "say what does, or drop the lemma"),
        (all(map(is_path, entry.used_by)), "used_by names objects", "write module:object"),
    )
    for holds, rule, fix in rules:
        if not holds:
            raise InputError(entry.id, rule=rule, fix=fix)


def is_path(use: str) -> bool:
    """Whether a use has the form ``module:object``."""
    return re.fullmatch(r"[\w.]+:[\w.]+", use) is not None


def near(entry: Lemma) -> bool:
    """Whether the control is as close to the constant as the kind of lemma demands."""
    if entry.kind == "format":
        return abs(entry.constant - entry.control) == 1
    if entry.constant == 0 or entry.control == 0:
        return False
    return Fraction(1, 2) <= entry.control / entry.constant <= 2


def all_lemmas() -> tuple[Lemma, ...]:
    """Every registered lemma, in the order of registration."""
    return tuple(_LEMMAS.values())


def get_lemma(lemma_id: str) -> Lemma:
    """Look a lemma up by its id.

    Raises:
        UnknownNameError: There is no such lemma.
    """
    if lemma_id not in _LEMMAS:
        raise unknown_name("lemma", lemma_id, _LEMMAS, shown_by="dmverify list lemmas")
    return _LEMMAS[lemma_id]
