r"""Reads the part of Rocq's language that statements and definitions are written in.

Enough for formulas over the real numbers and for the recursive definitions of ``rocq/``; proofs are
not read. A term is a tuple whose first item says what it is:

| term | meaning |
|---|---|
| ("var", name), ("num", digits) | a name; a number |
| ("app", f, x, ...) | f applied |
| ("op", sign, a, b) | ``+ - * / ^ :: ++``, comparisons, ``/\`` ``\/`` ``->`` |
| ("neg", a), ("inv", a) | -a, / a |
| ("fun", patterns, body), also "forall" and "exists" | binders, types left out |
| ("let", pattern, value, body), ("if", test, a, b) | |
| ("match", value, ((pattern, body), ...)) | |
| ("tuple", a, ...), ("list", a, ...) | |
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from dmverify.errors import InputError

Term: TypeAlias = tuple[Any, ...]

_TOKEN = re.compile(
    r"\s*(=>|:=|<->|->|/\\|\\/|<=|>=|<>|::|\+\+|%[A-Za-z]+|[A-Za-z_][\w.']*(?<!\.)|\d+|.)",
    re.DOTALL,
)
# Weakest first; what associates to the right is marked.
_LEVELS: tuple[tuple[tuple[str, ...], bool], ...] = (
    (("->",), True),
    (("\\/",), True),
    (("/\\",), True),
    (("<=", "<", ">=", ">", "=", "<>"), False),
    (("::", "++"), True),
    (("+", "-"), False),
    (("*", "/"), False),
    (("^",), True),
)
_OPENING = ("fun", "forall", "exists", "let", "if")
_COMPARISONS = _LEVELS[3][0]
_ENDS = frozenset(
    {
        *(")", "]", ",", ";", "=>", ":=", "|", "then", "else", "in", "with", "end", ":", "", "}"),
        *(sign for signs, _ in _LEVELS for sign in signs),
    }
)


def without_comments(text: str) -> str:
    """A file's text with its comments, nested ones too, left out."""
    out, level = [], 0
    for part in re.split(r"(\(\*|\*\))", text):
        if part == "(*":
            level += 1
        elif part == "*)":
            level -= 1
        elif level == 0:
            out.append(part)
    return "".join(out)


def parse(text: str) -> Term:
    """The term that a text is.

    Raises:
        InputError: If it is outside the language.

    >>> parse("n * u + / 2")
    ('op', '+', ('op', '*', ('var', 'n'), ('var', 'u')), ('inv', ('num', '2')))
    """
    reader = _Reader(text)
    term = reader.term()
    reader.need("")
    return term


class _Reader:
    """A recursive descent, one method a construct."""

    def __init__(self, text: str) -> None:
        words = (match.group(1) for match in _TOKEN.finditer(text.strip()))
        self.words = [word for word in words if not word.startswith("%") and word.strip()]
        self.at = 0

    @property
    def word(self) -> str:
        return self.words[self.at] if self.at < len(self.words) else ""

    def next(self) -> str:
        self.at += 1
        return self.words[self.at - 1]

    def take(self, word: str) -> bool:
        if self.word != word:
            return False
        self.at += 1
        return True

    def need(self, word: str) -> None:
        if self.word != word:
            where = " ".join(self.words[max(self.at - 6, 0) : self.at + 3])
            raise InputError(
                f"{self.word!r} in {where!r}",
                rule=f"here stands {word!r}" if word else "the term ends here",
                fix="write the statement in the language of this module",
            )
        self.at += bool(word)

    def term(self) -> Term:
        special: dict[str, Callable[[], Term]] = {
            **dict.fromkeys(("fun", "forall", "exists"), self.binder),
            "let": self.let,
            "if": self.branch,
        }
        return special[self.word]() if self.word in special else self.level(0)

    def binder(self) -> Term:
        kind = self.next()
        patterns: list[Term] = []
        while self.word not in ("=>", ","):
            if self.take("("):
                patterns += self.names()
                self.need(")")
            elif self.take(":"):
                self.skip_type()
            else:
                self.take("'")
                patterns.append(self.pattern())
        self.next()
        return (kind, tuple(patterns), self.term())

    def names(self) -> list[Term]:
        """Names before a type, or one pattern in brackets."""
        found: list[Term] = []
        while self.word not in (":", ")", ","):
            found.append(("var", self.next()))
        if self.take(":"):
            self.skip_type()
        return found

    def skip_type(self) -> None:
        level = 0
        while level or self.word not in (")", ",", ":=", "=>", ""):
            level += {"(": 1, ")": -1}.get(self.next(), 0)

    def let(self) -> Term:
        self.next()
        self.take("'")
        pattern = self.pattern()
        self.need(":=")
        value = self.term()
        self.need("in")
        return ("let", pattern, value, self.term())

    def branch(self) -> Term:
        self.next()
        test = self.term()
        self.need("then")
        first = self.term()
        self.need("else")
        return ("if", test, first, self.term())

    def match(self) -> Term:
        self.next()
        value = self.term()
        self.need("with")
        cases = []
        while not self.take("end"):
            self.take("|")
            pattern = self.pattern()
            self.need("=>")
            cases.append((pattern, self.term()))
        return ("match", value, tuple(cases))

    def pattern(self) -> Term:
        """A constructor with its arguments, or head :: tail."""
        first = self.pattern_item()
        if first[0] == "var" and first[1][0].isupper():
            arguments = []
            while self.word not in _ENDS:
                arguments.append(self.pattern_item())
            first = ("app", first, *arguments) if arguments else first
        if self.take("::"):
            return ("op", "::", first, self.pattern())
        return first

    def pattern_item(self) -> Term:
        if self.take("["):
            self.need("]")
            return ("list",)
        if not self.take("("):
            return ("var", self.next())
        items = [self.pattern()]
        while self.take(","):
            items.append(self.pattern())
        self.need(")")
        return items[0] if len(items) == 1 else ("tuple", *items)

    def level(self, depth: int) -> Term:
        if depth == len(_LEVELS):
            return self.prefix()
        signs, right = _LEVELS[depth]
        left = self.level(depth + 1)
        while self.word in signs:
            sign = self.next()
            other = self.right(depth) if right else self.level(depth + 1)
            left = self.joined(sign, left, other)
            if right:
                break
        return left

    def right(self, depth: int) -> Term:
        return self.term() if self.word in _OPENING else self.level(depth)

    def joined(self, sign: str, left: Term, right: Term) -> Term:
        """``a <= b < c`` is two comparisons."""
        if sign in _COMPARISONS and left[0] == "op" and left[1] in _COMPARISONS:
            return ("op", "/\\", left, ("op", sign, left[3], right))
        return ("op", sign, left, right)

    def prefix(self) -> Term:
        if self.take("-"):
            return ("neg", self.level(len(_LEVELS) - 2))
        if self.take("/"):
            return ("inv", self.application())
        return self.application()

    def application(self) -> Term:
        head = self.item()
        arguments = []
        while self.word not in _ENDS:
            arguments.append(self.item())
        return ("app", head, *arguments) if arguments else head

    def item(self) -> Term:
        if self.word == "match":
            return self.match()
        if self.take("("):
            return self.bracketed(")", "tuple")
        if self.take("["):
            return ("list",) if self.take("]") else self.bracketed("]", "list")
        word = self.next()
        return ("num", word) if word.isdigit() else ("var", word)

    def bracketed(self, end: str, kind: str) -> Term:
        items = [self.term()]
        while self.take(",") or self.take(";"):
            items.append(self.term())
        if self.take(":"):
            self.skip_type()
        self.need(end)
        return items[0] if len(items) == 1 and kind == "tuple" else (kind, *items)


def show(term: Term) -> str:
    """A term as text, bracketed throughout."""
    kind = term[0]
    if kind in ("var", "num"):
        return str(term[1])
    if kind == "op":
        return f"({show(term[2])} {term[1]} {show(term[3])})"
    if kind in ("neg", "inv"):
        return f"({'-' if kind == 'neg' else '/'} {show(term[1])})"
    if kind in ("fun", "forall", "exists"):
        return f"({kind} {' '.join(map(show, term[1]))}, {show(term[2])})"
    if kind == "let":
        return f"(let {show(term[1])} := {show(term[2])} in {show(term[3])})"
    if kind == "if":
        return f"(if {show(term[1])} then {show(term[2])} else {show(term[3])})"
    if kind == "match":
        return (
            f"(match {show(term[1])} {' '.join(f'| {show(p)} => {show(b)}' for p, b in term[2])})"
        )
    ends = {"app": "( )", "tuple": "(, )", "list": "[; ]"}[kind]
    return f"{ends[0]}{ends[1:-1].join(map(show, term[1:]))}{ends[-1]}"


_BINDS = {sign: depth for depth, (signs, _) in enumerate(_LEVELS) for sign in signs}
_RIGHT = {sign for signs, right in _LEVELS if right for sign in signs}
_TIGHTEST = len(_LEVELS)


def pretty(term: Term, least: int = 0) -> str:
    """A term as text with no more brackets than it needs, to be read.

    >>> pretty(parse("(a + (b * c)) * (f x)"))
    '(a + b * c) * f x'
    """
    kind = term[0]
    if kind == "op":
        depth, sign = _BINDS[term[1]], term[1]
        sides = (depth + 1, depth) if sign in _RIGHT else (depth, depth + 1)
        text = f"{pretty(term[2], sides[0])} {sign} {pretty(term[3], sides[1])}"
    elif kind in ("neg", "inv"):
        depth, text = _TIGHTEST, f"{'-' if kind == 'neg' else '/'} {pretty(term[1], _TIGHTEST)}"
    elif kind == "app":
        depth, text = _TIGHTEST, " ".join(pretty(part, _TIGHTEST + 1) for part in term[1:])
    elif kind in _OPENING[:3]:
        depth, text = 0, f"{kind} {' '.join(map(show, term[1]))}, {pretty(term[2])}"
    else:
        return show(term)
    return f"({text})" if depth < least else text
