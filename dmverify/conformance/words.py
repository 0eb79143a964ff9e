"""Words from outside, made fit to show: they steer no terminal, and break and fill no file.

Outside is whatever a kernel, a recording, a file or a command line says. Every text of a report
goes through ``visible``, whether it is shown on a terminal, in JSON or in JUnit.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

from dmverify.errors import InputError

Thing = TypeVar("Thing")
LONGEST = 2000  # letters
HALF = LONGEST // 2


def visible(text: object) -> str:
    """A text of one line, with a space for each character that is not shown as itself.

    These are controls, line ends, changes of direction, and halves of characters.
    """
    return "".join(letter if letter.isprintable() else " " for letter in str(text))


def printable(text: object) -> str:
    """``visible``, without the middle of a long text."""
    whole = str(text)
    if len(whole) > LONGEST:
        whole = f"{whole[:HALF]} ... {len(whole) - LONGEST} letters ... {whole[-HALF:]}"
    return visible(whole)


def all_visible(value: object) -> object:
    """A JSON value with ``visible`` applied to every text, keys too."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible(key): all_visible(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [all_visible(one) for one in value]
    return value


def describe_error(error: BaseException) -> str:
    """Type and text of an exception, also of one whose text cannot be had."""
    kind = type(error).__name__
    try:
        return f"{kind}: {printable(error)}"
    except Exception:
        return f"{kind}, whose text raises an exception"


def several(what: str, names: Iterable[Thing]) -> tuple[Thing, ...]:
    """What a caller passed as several things.

    Args:
        what: Name of the argument.
        names: Its value.

    Raises:
        InputError: For one text or path, or anything else that is not several.
    """
    one = isinstance(names, (str, bytes, os.PathLike))  # a text is a sequence too, of letters
    if one or not isinstance(names, Iterable):
        shown = f"{os.fspath(names)!r:.80}" if isinstance(names, (str, os.PathLike)) else "..."
        raise InputError(
            f"{what}={names!r:.80}", rule=f"{what} are several", fix=f"write {what}=[{shown}]"
        )
    return tuple(names)
