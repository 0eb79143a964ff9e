"""The end of a long case as a case of its own, so that a CPU can judge a few rows bit for bit.

The rows of O, LSE, delta and dQ of the last 128 queries depend on no other query: scales, tiles and
windows are blocks of 64 or 128 rows, and a bottom-right mask shows the last queries of a long
problem the same keys as the queries of the short one. dK and dV are not judged this way: they sum
over all queries.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dmverify.errors import InputError
from dmverify.spec.case import Case, Inputs, Outputs

ROWS = 128
NAMES = ("o", "lse", "dq", "delta")


def tail(case: Case, *, heads: tuple[int, ...]) -> Case:
    """The last ``ROWS`` queries of some heads, over all keys.

    Args:
        case: Its number of queries is a multiple of ``ROWS``.
        heads: Query heads to keep; each brings its key head.

    Raises:
        InputError: If the queries are no multiple of ``ROWS``.
    """
    problem = case.problem
    if problem.queries % ROWS or not problem.queries:
        raise InputError(
            f"{problem.queries} queries",
            rule=f"the last {ROWS} queries are a whole block",
            fix=f"use a multiple of {ROWS} queries",
        )
    wide, narrow = list(heads), [head // problem.group for head in heads]
    at = {"q": wide, "do": wide, "k": narrow, "v": narrow}
    inputs = {name: x[:, :, at[name]] for name, x in case.inputs.items()}
    inputs |= {name: inputs[name][:, -ROWS:] for name in ("q", "do")}
    short = replace(problem, heads=len(heads), kv_heads=len(heads), queries=ROWS)
    whole = {name: np.ascontiguousarray(x) for name, x in inputs.items()}
    return Case(case.id, case.contract, short, Inputs(**whole), case.targets)


def cut(outputs: Outputs, *, heads: tuple[int, ...]) -> Outputs:
    """The judged rows of a long case's outputs; dK and dV are left with no token."""
    wide = list(heads)
    rows = {name: getattr(outputs, name)[:, -ROWS:, wide] for name in ("o", "dq")}
    rows |= {name: getattr(outputs, name)[:, wide, -ROWS:] for name in ("lse", "delta")}
    rows |= {name: getattr(outputs, name)[:, :0, :1] for name in ("dk", "dv")}
    return Outputs(**{name: np.ascontiguousarray(x) for name, x in rows.items()})
