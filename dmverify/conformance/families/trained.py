"""Operands and gradients of trained models, as a family: ``capture/<name of the capture>@0``."""

from __future__ import annotations

from dmverify.conformance.captures import Capture, list_captures, load_capture
from dmverify.errors import InputError
from dmverify.spec.case import Case, Inputs
from dmverify.spec.problem import Problem

FAMILY = "capture"
HUNTS = "whatever trained weights bring: offsets, sharp rows, outliers, all at once"


def capture_ids() -> tuple[str, ...]:
    """The case ids of all captures."""
    return tuple(f"{FAMILY}/{name}@0" for name in list_captures())


def capture_case(name: str, *, contract: str, seed: int) -> Case:
    """The case of one capture.

    Raises:
        UnknownNameError: There is no capture of this name.
        InputError: A seed other than 0: captures are stored, not drawn.
    """
    if seed:
        raise InputError(f"seed {seed}", rule="captures are stored, not drawn", fix="use @0")
    capture = load_capture(name)
    return Case(
        id=f"{FAMILY}/{name}@0",
        contract=contract,
        problem=_problem(capture),
        inputs=Inputs(q=capture.q, k=capture.k, v=capture.v, do=capture.do),
        hunts=HUNTS,
    )


def _problem(capture: Capture) -> Problem:
    batch, queries, heads, head_dim = capture.q.shape
    _, keys, kv_heads, _ = capture.k.shape
    return Problem(
        batch=batch,
        heads=heads,
        kv_heads=kv_heads,
        queries=queries,
        keys=keys,
        head_dim=head_dim,
        causal=capture.causal,
        softmax_scale=capture.softmax_scale,
    )
