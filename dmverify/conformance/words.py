"""What a kernel says, made fit to show: it steers no terminal, and breaks and fills no file."""

from __future__ import annotations

LONGEST = 2000  # letters
HALF = LONGEST // 2


def printable(text: object) -> str:
    """A text with a space for what would steer a terminal, and without the middle of a long one."""
    whole = str(text)
    if len(whole) > LONGEST:
        whole = f"{whole[:HALF]} ... {len(whole) - LONGEST} letters ... {whole[-HALF:]}"
    return "".join(letter if letter.isprintable() else " " for letter in whole)


def said(error: BaseException) -> str:
    """Type and text of an exception, also of one whose text cannot be had."""
    kind = type(error).__name__
    try:
        return f"{kind}: {printable(error)}"
    except Exception:
        return f"{kind}, whose text raises an exception"
