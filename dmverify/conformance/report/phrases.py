"""A pattern in words: where the failed elements lie, and what stands there instead.

Such as: 8,192 of 99,840 elements of o; all in batch 1, heads 4 to 5, queries 64 to 127 (the second
64); every channel: 2 times what is due.
"""

from __future__ import annotations

import math
from math import prod

from dmverify.conformance.pattern import Pattern, Span, Trait

PLURALS = {"batch": "batches", "query": "queries"}
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
BLOCK = 64  # rows of a tile
TOLD = {
    "nan": "NaN where numbers are due",
    "number": "numbers where NaN is due",
    "infinite": "infinity where finite numbers are due",
    "zero": "0 where other numbers are due",
    "smaller": "too small in magnitude",
    "larger": "too large in magnitude",
}


def in_words(pattern: Pattern) -> str:
    """The whole pattern in one sentence."""
    said = what(pattern)
    return f"{where(pattern)}: {said}" if said else where(pattern)


def where(pattern: Pattern) -> str:
    """How many elements failed, and where they lie."""
    of = (
        f"{pattern.failed:,} of {pattern.of:,}"
        if pattern.failed < pattern.of
        else f"all {pattern.of:,}"
    )
    count = f"{of} {_elements(pattern)}"
    wide = [span for span in pattern.where if span.size > 1]
    part = [span for span in wide if not span.whole]
    whole = [span.axis for span in wide if span.whole]
    if not part:
        return count + ("" if pattern.failed == pattern.of else ", all over it")
    inside = prod(span.count for span in pattern.where)
    share = pattern.failed / inside
    dense = "" if share > 1 - 1e-9 else f" ({_percent(share)} of the elements there)"
    every = f"; every {_listed(whole)}" if whole else ""
    return f"{count}; all in {', '.join(map(_span, part))}{dense}{every}"


def what(pattern: Pattern) -> str:
    """What the failed elements are; empty where nothing is known of them."""
    said = [_trait(trait) for trait in pattern.traits]
    plain = {trait.kind for trait in pattern.traits} <= {"infinite", "smaller", "larger"}
    if plain and math.isfinite(pattern.error):
        sides = [] if said else ["too large and too small"]
        said = [*said, *sides, f"off by {_percent(pattern.error)} in the root mean square"]
    return ", ".join(said)


def _elements(pattern: Pattern) -> str:
    if pattern.output == "row":
        return "rows"
    summed = pattern.output.startswith("sum of ")
    return f"sums of {pattern.output[7:]}" if summed else f"elements of {pattern.output}"


def _span(span: Span) -> str:
    many = PLURALS.get(span.axis, f"{span.axis}s")
    last = span.size - 1
    if span.count == 1:
        return f"{span.axis} {span.first}" + (" (the last)" if span.first == last else "")
    if span.count == 2 and span.step > 1:
        return f"{many} {span.first} and {span.last}"
    ends = f"{many} {span.first} to {span.last}"
    if span.step == 1:
        return ends + _block(span)
    if span.step > 1:
        return f"every {_ordinal(span.step)} of the {ends}"
    return f"{span.count} of the {ends}"


def _block(span: Span) -> str:
    """Which tile of rows it is, if it is one."""
    number, start = divmod(span.first, BLOCK)
    end = min(span.first + BLOCK, span.size) - 1
    if start or span.last != end or span.size <= BLOCK or span.axis not in ("query", "key"):
        return ""
    last = " and last" if end == span.size - 1 else ""
    return f" (the {_ordinal(number + 1)}{last} {BLOCK})"


def _ordinal(number: int) -> str:
    return ORDINALS[number - 1] if number <= len(ORDINALS) else f"{number}th"


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _trait(trait: Trait) -> str:
    """One trait, with its share where that is not nearly all."""
    share = "" if trait.share >= 0.995 else f" ({_percent(trait.share)} of them)"
    return _told(trait) + share


def _told(trait: Trait) -> str:
    known = f" ({trait.name})" if trait.name else ""
    match trait.kind:
        case "without-key":
            return f"what is due without {trait.name}"
        case "factor" if abs(trait.value + 1) < 1e-3:
            return "what is due with the other sign"
        case "factor":
            return f"{trait.value:.3g} times what is due{known}"
        case "own-factor":
            return f"what is due times a factor that each {trait.axis} has for itself"
        case "offset":
            sign = "plus" if trait.value >= 0 else "minus"
            return f"what is due {sign} {abs(trait.value):.3g}{known}"
        case "shifted":
            side = "before" if trait.value > 0 else "after"
            places = abs(int(trait.value))
            other = f"{trait.axis} {side}" if places == 1 else f"{trait.axis} {places} {side}"
            return f"what is due of the {other}"
    return TOLD[trait.kind]


def _percent(share: float) -> str:
    percent = 100 * share
    if percent < 0.01:
        return f"{share:.1e}"
    return f"{percent:.2g} %" if percent < 99.5 else f"{percent:.3g} %"
