"""What an attack starts from, in the words of a command line."""

from __future__ import annotations

import re

from dmverify.attack.stack import NAMES, Stack, from_arrays
from dmverify.conformance.captures import load_capture
from dmverify.errors import InputError
from dmverify.spec.problem import Problem

SHAPE = re.compile(r"(\d+),(\d+)(?:/(\d+))?,(\d+),(\d+)")


def read_shape(text: str, *, causal: bool) -> Problem:
    """The problem of ``B,HEADS[/KEY HEADS],N,HEAD_DIM``.

    Raises:
        InputError: For another text, or sizes that are no problem.
    """
    found = SHAPE.fullmatch(text)
    if found is None:
        raise InputError(
            f"shape {text!r}",
            rule="a shape is BATCH,HEADS,N,HEAD_DIM, with HEADS/KEY_HEADS where they differ",
            fix="write 1,1,32,32",
        )
    batch, heads, kv_heads, length, head_dim = (int(x) if x else 0 for x in found.groups())
    return Problem(batch, heads, kv_heads or heads, length, length, head_dim, causal=causal)


def read_percent(text: str) -> float:
    """The fraction of ``3%`` or ``0.03``.

    Raises:
        InputError: For another text.
    """
    number, sign, rest = text.partition("%")
    try:
        if rest:
            raise ValueError
        return float(number) / (100 if sign else 1)
    except ValueError:
        raise InputError(
            f"within {text!r}",
            rule="how far elements may move is a percentage of each",
            fix="write --within 3%",
        ) from None


def from_capture(name: str, tokens: int) -> tuple[Problem, Stack]:
    """The first head and tokens of a capture, and its problem.

    Raises:
        UnknownNameError: If there is no such capture.
    """
    capture = load_capture(name)
    stack = from_arrays({n: getattr(capture, n)[:1, :tokens, :1] for n in NAMES})
    length, head_dim = stack.q.shape[1], stack.q.shape[-1]
    problem = Problem(
        1,
        1,
        1,
        length,
        length,
        head_dim,
        causal=capture.causal,
        softmax_scale=capture.softmax_scale,
    )
    return problem, stack


def repeated(stack: Stack, times: int) -> Stack:
    """Every query and key several times, which leaves errors of dQ and O about as they are.

    P falls by that factor and so do dQ's summands, of which there are as many more; dV and dK
    repeat. Without a mask, statistics of rows and channels stay as they were.
    """
    return Stack(*(x.repeat(1, times, 1, 1) for x in stack.tensors()))
