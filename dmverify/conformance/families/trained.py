"""Operands and gradients of trained models, as a family: ``capture/<name of the capture>@0``.

``capture/<name>,head_dim=64@0`` appends channels of zeros, for kernels that serve no other size.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dmverify.conformance.captures import Capture, list_captures, load_capture
from dmverify.errors import InputError
from dmverify.spec.case import Case, Inputs
from dmverify.spec.problem import Problem

FAMILY = "capture"
TARGETS = "whatever trained weights bring: offsets, sharp rows, outliers, all at once"


def capture_ids() -> tuple[str, ...]:
    """The case ids of all captures."""
    return tuple(f"{FAMILY}/{name}@0" for name in list_captures())


def capture_case(name: str, *, contract: str, seed: int, head_dim: int | None = None) -> Case:
    """The case of one capture.

    Args:
        name: Name of the capture.
        contract: Name of the contract that the answer will be judged by.
        seed: 0.
        head_dim: Channels after padding with zeros; None keeps the capture's.

    Raises:
        UnknownNameError: There is no capture of this name.
        InputError: A seed other than 0: captures are stored, not drawn; or fewer channels.
    """
    if seed:
        raise InputError(f"seed {seed}", rule="captures are stored, not drawn", fix="use @0")
    capture = load_capture(name)
    problem = _problem(capture)
    missing = (head_dim or problem.head_dim) - problem.head_dim
    if missing < 0:
        raise InputError(
            f"head_dim={head_dim}",
            rule=f"channels of zeros are appended to the capture's {problem.head_dim}",
            fix="name more channels, or leave head_dim out",
        )
    tensors = {name: getattr(capture, name) for name in ("q", "k", "v", "do")}
    padded = {name: np.pad(x, [(0, 0)] * 3 + [(0, missing)]) for name, x in tensors.items()}
    return Case(
        id=f"{FAMILY}/{name}@0" if head_dim is None else f"{FAMILY}/{name},head_dim={head_dim}@0",
        contract=contract,
        problem=replace(problem, head_dim=problem.head_dim + missing),
        inputs=Inputs(**padded),
        targets=TARGETS,
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
