"""``study worked-row``: every number of one row of dS, and where its sum comes from.

The last query of a head with 8 keys and 4 channels, causal, one block per operand, contract
``article``. A tensor core contracts 32 channels at a time, so the head has 32, of which 28 are zero
and add exactly nothing; the softmax scale stays that of 4 channels, 1/2.

The article's row has no published seed. Seed 5 is the one of 0 to 5 whose split is most like it
(gradient rounding before probability rounding); in seeds 1, 3 and 4 the probability leads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dmverify.conformance.families.draws import Draws
from dmverify.conformance.families.elementary import F64
from dmverify.conformance.families.tensors import NAMES, as_inputs
from dmverify.spec.arithmetic import Double, Single
from dmverify.spec.attention import interpret
from dmverify.spec.attention.operands import prepare
from dmverify.spec.attention.pages import forward
from dmverify.spec.case import Inputs, Internals
from dmverify.spec.contracts import get_contract
from dmverify.spec.formats import E4M3
from dmverify.spec.ledger import ledger
from dmverify.spec.problem import Problem
from dmverify.studies.blas import one_blas_thread
from dmverify.studies.study import Progress, Study, StudyResult, checked_seeds, whole
from dmverify.studies.worked_row_report import plots, tables

KEYS, CHANNELS = 8, 4
PROBLEM = Problem(
    batch=1, heads=1, kv_heads=1, queries=KEYS, keys=KEYS, head_dim=32, softmax_scale=CHANNELS**-0.5
)
ROW = KEYS - 1  # the last query sees every key
MODES = ("stale", "consistent", "matched", "renormalized", "shifted")
SEEDS = (5,)
SUMMARY = "every number of one row of dS, and its sum split exactly into the ledger's terms"
METHOD = (
    "The last query of one causal head with 8 keys and 4 channels (28 more are zero), contract "
    "article in float32: one block per operand, P in one group of 64 keys, dS in one tile.",
    "The terms are exact rationals and sum exactly to the row sum; the tables round them. prob and "
    "grad are the two terms of eq. 2 of arXiv 2609.37852: rounding of the probabilities and of dO. "
    "out is the BF16 store of O. cast leads from the row sum to the one after the cast of dS.",
)


@dataclass(frozen=True)
class _Softmax:
    """What the forward did with the row, float32 numbers widened."""

    s: F64
    e: F64
    code: F64
    basis: float
    l: float  # noqa: E741 - the field's symbol
    lse: float
    o: F64


def run(
    *,
    seeds: Sequence[int] | None = None,
    quick: bool = False,
    out: Path | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """Works one row a seed.

    Args:
        seeds: Seeds of the rows; 5 unless given.
        quick: Changes nothing: one row takes a fraction of a second.
        out: A directory for JSON, picture and page, or None.
        progress: Told after each row.

    Raises:
        InputError: For seeds that are negative, repeated or none at all.
        DependencyError: If ``out`` is given and matplotlib is missing.
    """
    rows = []
    with one_blas_thread():
        for seed in checked_seeds(seeds, SEEDS):
            rows.append(work(seed))
            if progress is not None:
                progress(f"row of seed {seed}")
    data: dict[str, Any] = {"contract": "article", "rows": rows}
    result = StudyResult(
        "worked-row", SUMMARY, METHOD, data, tables(rows), plots(rows), command=whole("worked-row")
    )
    result = result.asked(seeds=seeds, quick=quick)
    if out is not None:
        result.write(out)
    return result


STUDY = Study("worked-row", SUMMARY, run)


def row_inputs(seed: int) -> Inputs:
    """Standard normal numbers in the first 4 channels, BF16."""
    draws = Draws("worked-row", seed)
    tensors = {}
    for name in NAMES:
        tensors[name] = np.zeros(PROBLEM.shapes()[name])
        tensors[name][..., :CHANNELS] = draws.normal(name, (1, KEYS, 1, CHANNELS))
    return as_inputs(tensors)


def work(seed: int) -> dict[str, Any]:
    """Every number of one row, ready for JSON."""
    inputs = row_inputs(seed)
    exact = interpret(get_contract("article"), PROBLEM, inputs, Double()).values
    modes = {mode: _mode(mode, inputs) for mode in MODES}
    inside = modes["stale"][0]
    softmax = _softmax(inputs)
    forward_p = inside.weights[0, 0, ROW] / inside.norm[0, 0, ROW]
    return {
        "seed": seed,
        "exact": {"delta": float(exact["delta"][0, 0, ROW]), "lse": float(exact["lse"][0, 0, ROW])},
        "operands": _operands(inputs, inside),
        "keys": {
            "S": softmax.s.tolist(),
            "e": softmax.e.tolist(),
            "code": softmax.code.tolist(),
            "hex": [f"{int(code):02X}" for code in E4M3.encode(softmax.code.astype(np.float32))],
            "P": inside.p[0, 0, ROW].tolist(),
            "P forward": forward_p.tolist(),
            "dP": inside.dp[0, 0, ROW].tolist(),
        },
        "forward": {
            "basis": softmax.basis,
            "l": softmax.l,
            "lse": softmax.lse,
            "O before store": inside.o32[0, 0, ROW, :CHANNELS].tolist(),
            "O": softmax.o.tolist(),
        },
        "modes": {mode: record for mode, (_, record) in modes.items()},
    }


def _operands(inputs: Inputs, inside: Internals) -> dict[str, list[Any]]:
    """What the row's products read: the query's own rows, and every key's."""
    return {
        "q": inside.q[0, 0, ROW, :CHANNELS].tolist(),
        "dO": inputs.do[0, ROW, 0, :CHANNELS].astype(float).tolist(),
        "dO^": inside.do[0, 0, ROW, :CHANNELS].tolist(),
        "k": inside.k[0, 0, :, :CHANNELS].tolist(),
        "v": inside.v[0, 0, :, :CHANNELS].tolist(),
    }


def _softmax(inputs: Inputs) -> _Softmax:
    """The forward's steps by themselves, for the numbers that no later step needs."""
    a, contract = Single(), get_contract("article")
    with np.errstate(all="ignore"):  # padding rows see no key
        head = prepare(contract, PROBLEM, inputs, cast=True).head(a, 0, 0)
        fwd = forward(contract, head)
    assert fwd.scores.logits is not None
    assert fwd.e is not None
    return _Softmax(
        s=fwd.scores.logits.float64()[ROW, :KEYS],
        e=fwd.e.float64()[ROW, :KEYS],
        code=fwd.p.codes.float64()[ROW, 0, :KEYS],
        basis=float(fwd.p.scale.float64()[ROW, 0, 0]),
        l=float(fwd.l.float64()[ROW, 0]),
        lse=float(fwd.lse.float64()[ROW, 0]),
        o=fwd.o.float64()[ROW, :CHANNELS],
    )


def _mode(mode: str, inputs: Inputs) -> tuple[Internals, dict[str, Any]]:
    """One delta mode's numbers and its ledger."""
    contract = get_contract("article", delta=mode)
    result = interpret(contract, PROBLEM, inputs, Single(), internals=True)
    inside = result.internals
    if inside is None:
        raise ValueError("a worked row needs a run with internals=True")
    book = ledger(contract, PROBLEM, inputs=inputs, internals=inside, outputs=result.outputs)
    ds, cast = inside.ds[0, 0, ROW], inside.ds_cast[0, 0, ROW]
    total, size = float(book.residual[ROW]), float(book.size[ROW])
    return inside, {
        "shift": float(inside.shift[0, 0, ROW]),
        "delta": float(inside.delta[0, 0, ROW]),
        "dS": ds.tolist(),
        "dS^": cast.tolist(),
        "row_sum": total,
        "size": size,
        "relative": abs(total) / size,
        "row_sum_cast": float(cast.sum()),
        "terms": {name: float(book.values[name][ROW]) for name in book.terms},
        "cast": float(book.values["cast"][ROW]),
        "bounds": {name: float(book.bounds[name][ROW]) for name in book.names},
        "exact_terms": {name: str(book.fractions(name)[ROW]) for name in book.terms},
        "closes": bool(book.closes[ROW]),
    }
