"""Runs terms of Rocq's language on exact numbers, with the definitions of ``rocq/``.

Rational steps are exact. exp, ln and sqrt are ball arithmetic's midpoints, 2^-200 relative;
rounding to a format is that of ``exact``. A name means the definition of the file that it stands
in, else the last one of the files before it; a definition of a section means the section's
variables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, TypeAlias

import flint

from dmverify.errors import unknown_name
from dmverify.proofs.exact import exponent_of, round_e4m3, round_f32
from dmverify.proofs.gallina import Term, parse, show, without_comments
from dmverify.proofs.theorems import FILES, SOURCES

Value: TypeAlias = Any  # a Fraction, a natural number, a list, a constructor's tuple, a function
Scope: TypeAlias = dict[str, Value]
FILE = "the file whose names are meant"  # a key that is no identifier
PRECISION = 200
SECTION = re.compile(r"^Section (\w+)\.(.*?)^End \1\.", re.MULTILINE | re.DOTALL)
_DEFINED = re.compile(
    r"^ *(?:Definition|Fixpoint)\s+(\w+)\b(.*?):=(.*?)\.[ ]*$", re.MULTILINE | re.DOTALL
)
_BINDER = re.compile(r"\(([^():]*):[^()]*(?:\([^()]*\)[^()]*)*\)|(?<![\w(])(\w+)")


@cache
def source(file: str) -> str:
    """A file of theorems without its comments."""
    return without_comments((SOURCES / f"{file}.v").read_text(encoding="utf-8"))


class Late:
    """A name's value, formed when it is first needed: a statement may name what has no number."""

    def __init__(self, term: Term, scope: Scope) -> None:
        self.term, self.scope = term, scope

    def value(self) -> Value:
        """The value."""
        return run(self.term, self.scope)


def run(term: Term, scope: Scope) -> Value:
    """A term's value, its free names taken from the scope."""
    return _RULES[term[0]](term, scope)


def _name(term: Term, scope: Scope) -> Value:
    name = term[1]
    if name in scope:
        if isinstance(scope[name], Late):
            scope[name] = scope[name].value()
        return scope[name]
    if name in BUILT_IN:
        return BUILT_IN[name]
    if name in _CONSTRUCTORS:
        return _constructor(name)
    place = _where(name, scope[FILE])
    return _valued(*place, scope) if place in _of_sections() else definition(*place)


_CONSTRUCTORS = ("Product", "Fused", "Added", "Leaf", "Node", "Top", "Join")


def _constructor(name: str) -> Value:
    return lambda *arguments: (name, *arguments)


@cache
def _sources() -> Mapping[tuple[str, str], tuple[tuple[Term, ...], Term]]:
    """Parameters and bodies of all definitions, by file and name."""
    return {
        (file, name): (_parameters(head), parse(body))
        for file in FILES
        for name, head, body in _DEFINED.findall(source(file))
    }


@cache
def _of_sections() -> frozenset[tuple[str, str]]:
    """Definitions that mean the variables of the section that they stand in."""
    return frozenset(
        (file, name)
        for file in FILES
        for _, body in SECTION.findall(source(file))
        for name, _, _ in _DEFINED.findall(body)
    )


def _where(name: str, file: str) -> tuple[str, str]:
    """The definition that a name means in a file: its own, else the last one before it."""
    own, _, bare = name.rpartition(".")
    order = [own] if own else FILES[FILES.index(file) :: -1]
    places = [(place, bare) for place in order if (place, bare) in _sources()]
    if not places:
        known = {known for _, known in _sources()}
        raise unknown_name("definition", name, known, shown_by="the files of proofs/rocq")
    return places[0]


def _parameters(head: str) -> tuple[Term, ...]:
    """Names of a definition's arguments; its result's type is left out."""
    head = re.split(r":(?![^()]*\))", head)[0]
    names = (a or b for a, b in _BINDER.findall(head))
    return tuple(("var", word) for group in names for word in group.split())


@cache
def definition(file: str, name: str) -> Value:
    """A definition of a file, as a number or a function."""
    return _valued(file, name, {FILE: file})


def _valued(file: str, name: str, scope: Scope) -> Value:
    parameters, body = _sources()[file, name]
    return _closure(parameters, body, scope) if parameters else run(body, scope)


def _closure(patterns: Sequence[Term], body: Term, scope: Scope) -> Callable[..., Value]:
    """A function of several arguments; it may be given fewer, or more if it returns a function."""

    def call(*arguments: Value) -> Value:
        inner = dict(scope)
        for pattern, value in zip(patterns, arguments, strict=False):
            if not _bind(pattern, value, inner):
                raise ValueError(f"{show(pattern)} does not fit {value}")
        if len(arguments) < len(patterns):
            return _closure(patterns[len(arguments) :], body, inner)
        value = run(body, inner)
        return value(*arguments[len(patterns) :]) if arguments[len(patterns) :] else value

    return call


def _bind(pattern: Term, value: Value, scope: Scope) -> bool:
    """Whether a value has a pattern's form; its names are added to the scope."""
    kind = pattern[0]
    if kind == "list":
        return len(value) == 0
    if kind == "tuple":
        return _bind_each(pattern[1:], _flat(value, len(pattern) - 1), scope)
    if kind == "op":  # head :: tail
        return bool(value) and _bind_each(pattern[2:], (value[0], value[1:]), scope)
    if kind == "app" and pattern[1][1] == "S":
        return value > 0 and _bind(pattern[2], value - 1, scope)
    if kind == "app":
        return value[0] == pattern[1][1] and _bind_each(pattern[2:], value[1:], scope)
    if pattern[1] == "O":
        return bool(value == 0)
    if pattern[1] != "_":
        scope[pattern[1]] = value
    return True


def _flat(value: Value, size: int) -> Value:
    """A pair of pairs as one tuple: (a, b, c) is ((a, b), c)."""
    while len(value) < size:
        value = (*value[0], *value[1:])
    return value


def _bind_each(patterns: Sequence[Term], values: Sequence[Value], scope: Scope) -> bool:
    return all(_bind(p, v, scope) for p, v in zip(patterns, values, strict=True))


def _match(term: Term, scope: Scope) -> Value:
    value = run(term[1], scope)
    for pattern, body in term[2]:
        inner = dict(scope)
        if _bind(pattern, value, inner):
            return run(body, inner)
    raise ValueError(f"no case of {show(term)[:80]} fits {value}")


def _let(term: Term, scope: Scope) -> Value:
    inner = dict(scope)
    _bind(term[1], run(term[2], scope), inner)
    return run(term[3], inner)


def _apply(term: Term, scope: Scope) -> Value:
    return run(term[1], scope)(*(run(part, scope) for part in term[2:]))


_SIGNS: Mapping[str, Callable[[Value, Value], Value]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: Fraction(a) / b,
    "^": lambda a, b: a**b,
    "::": lambda a, b: (a, *b),
    "++": lambda a, b: (*a, *b),
    "<=": lambda a, b: a <= b,
    "<": lambda a, b: a < b,
    "=": lambda a, b: a == b,
}

_RULES: Mapping[str, Callable[[Term, Scope], Value]] = {
    "var": _name,
    "num": lambda t, s: Fraction(t[1]),
    "app": _apply,
    "op": lambda t, s: _SIGNS[t[1]](run(t[2], s), run(t[3], s)),
    "neg": lambda t, s: -run(t[1], s),
    "inv": lambda t, s: 1 / Fraction(run(t[1], s)),
    "fun": lambda t, s: _closure(t[1], t[2], s),
    "let": _let,
    "if": lambda t, s: run(t[2] if run(t[1], s) else t[3], s),
    "match": _match,
    "tuple": lambda t, s: tuple(run(part, s) for part in t[1:]),
    "list": lambda t, s: tuple(run(part, s) for part in t[1:]),
}


def _power(base: Value, exponent: Value) -> Fraction:
    return Fraction(base) ** int(exponent)


def _ball(function: Callable[[flint.arb], flint.arb]) -> Callable[[Value], Fraction]:
    def evaluate(x: Value) -> Fraction:
        before, flint.ctx.prec = flint.ctx.prec, PRECISION
        try:
            x = Fraction(x)
            ball = function(flint.arb(flint.fmpq(x.numerator, x.denominator)))
            mantissa, exponent = ball.mid().man_exp()
            return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
        finally:
            flint.ctx.prec = before

    return evaluate


def _code(x: Value) -> Fraction:
    return round_e4m3(min(max(Fraction(x), Fraction(-448)), Fraction(448)))


def _fold(f: Value, start: Value, *rest: Sequence[Value]) -> Value:
    """fold_right, which may wait for its list."""

    def fold(items: Sequence[Value]) -> Value:
        result = start
        for item in reversed(items):
            result = f(item, result)
        return result

    return fold(*rest) if rest else fold


BUILT_IN: Mapping[str, Value] = {
    "Rabs": abs,
    "Rmax": max,
    "Rmin": min,
    "INR": Fraction,
    "IZR": Fraction,
    "S": lambda n: n + 1,
    "length": len,
    "map": lambda f, items: tuple(map(f, items)),
    "fold_right": _fold,
    "fst": lambda pair: pair[0],
    "snd": lambda pair: pair[1],
    "Nat.max": max,
    "Rle_dec": lambda a, b: a <= b,
    "Rlt_dec": lambda a, b: a < b,
    "Req_EM_T": lambda a, b: a == b,
    "radix2": 2,
    "bpow": _power,
    "mag": lambda radix, x: exponent_of(Fraction(x)) + 1 if x else 0,
    "rnd": lambda x: round_f32(Fraction(x)),
    "code": _code,
    "exp": _ball(lambda x: x.exp()),
    "ln": _ball(lambda x: x.log()),
    "sqrt": _ball(lambda x: x.sqrt()),
}
"""What is not run from the sources: Rocq's own functions, and rounding, by ``exact``."""
