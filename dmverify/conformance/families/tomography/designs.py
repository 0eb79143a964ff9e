"""The inputs of a tomography run: which rows have a gradient in which call.

Rows of a key head are numbered f = h N + i over the heads h of its group and the queries i, T in
all. They are dealt into M groups, row f to group f mod M, and row f has the orthogonal row f div M
as its query: the rows of one group are orthogonal and lie M apart.

| form | calls | dO of row f in call m | rows a group |
|---|---|---|---|
| groups | some m of 0 .. M - 1 | its own numbers if f mod M = m, else 0 | T / 64, at most D |
| signs | 2^r >= M | its own numbers times H[m, f mod M] | at most D |
| probe | one | its own numbers | all |

In ``weights`` that factor is kept: a row's reading is sum_m w u_m / sum_m w^2 over the calls m.
Other inputs: K ~ N(0, 1) and V ~ offset + N(0, 1), both on a grid of 1/8, so that a mean of K in
float32 has no order; dO ~ N(0, 1). In ``probe`` the last channel of K is the smallest 7 * 2^k that
no element of K exceeds. Of a case that somebody brings, K, V plus the offset, and dO are taken, and
queries have the size that the spread of the logits asks for. Section: theory of residual
tomography, see the package's docstring.

A call on drawn inputs is a case like others: its id, which begins with
``tomography/FORM-m-of-RUNS-spread-S-offset-X`` and names every size, says all that its inputs
depend on, so that it can be asked elsewhere and recorded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dmverify.conformance.families.case_id import CaseId
from dmverify.conformance.families.draws import Draws
from dmverify.conformance.families.tensors import as_inputs
from dmverify.conformance.families.tomography.setup import SPACING, Setup
from dmverify.conformance.families.tomography.walsh import (
    exact_ceiling,
    exact_magnitude,
    orthogonal_rows,
    walsh,
)
from dmverify.errors import InputError
from dmverify.spec.case import F64, Case
from dmverify.spec.problem import Problem

FAMILY = "tomography"  # how the ids of calls begin
GRID = 8.0
PROBE = -1  # the channel


@dataclass(frozen=True, eq=False)
class Call:
    """One call of the kernel.

    Attributes:
        case: The question.
        weights: -1, 0 or +1 a row, (B, H, N): the sign of its dO, 0 where dO is 0.
    """

    case: Case
    weights: F64


def design(setup: Setup, contract: str, *, offset: float) -> tuple[Call, ...]:
    """Every call of one scan.

    Args:
        setup: Sizes and form.
        contract: Name of the contract that the kernel is asked to follow.
        offset: Added to V.
    """
    tensors, weights = _drawn(setup, offset)
    ids = [_name(setup, number, offset) for number in range(len(weights))]
    return tuple(
        Call(_case(name, contract, setup, tensors, weight), weight)
        for name, weight in zip(ids, weights, strict=True)
    )


def _name(setup: Setup, number: int, offset: float) -> str:
    """The id of a call; on a given case one that nothing can be drawn from."""
    if setup.given is None:
        return str(call_id(setup, number, offset=offset))
    return f"{FAMILY}/{setup.form}-{number}-offset-{_number(offset)} on {setup.given.id}"


def _drawn(setup: Setup, offset: float) -> tuple[dict[str, F64], list[F64]]:
    """The tensors that the calls share, dO whole, and the weights of its rows in each call."""
    draws = Draws(FAMILY, setup.seed)
    shapes = setup.problem.shapes()
    tensors = {name: draws.normal(name, shapes[name]) for name in ("q", "k", "v", "do")}
    tensors |= {name: _on_grid(tensors[name]) for name in ("k", "v")}
    if setup.given is not None:
        brought = dict(setup.given.inputs.items())
        tensors |= {name: brought[name].astype(np.float64) for name in ("k", "v", "do")}
    tensors["v"] = tensors["v"] + offset
    return (_probe if setup.form == "probe" else _walsh)(setup, tensors)


def _case(name: str, contract: str, setup: Setup, tensors: dict[str, F64], weight: F64) -> Case:
    shown = tensors | {"do": tensors["do"] * weight.swapaxes(1, 2)[..., None]}
    return Case(name, contract, setup.problem, as_inputs(shown))


def call_id(setup: Setup, number: int, *, offset: float) -> CaseId:
    """The id of one call of a scan."""
    p = setup.problem
    words = f"of-{setup.runs}-spread-{_number(setup.spread)}-offset-{_number(offset)}"
    names = ("batch", "heads", "kv_heads", "queries", "keys", "head_dim", "causal")
    sizes = {name: getattr(p, name) for name in names}
    words += "-of-file" * (setup.given is not None)  # which no id gives back
    return CaseId(FAMILY, f"{setup.form}-{number}-{words}", sizes, setup.seed)


def call_of(parts: CaseId, contract: str) -> Case:
    """The case of a call's id.

    Raises:
        InputError: If no scan has a call of this id.
    """
    setup, number, offset = _asked(parts)
    tensors, weights = _drawn(setup, offset)
    if number >= len(weights):
        raise _no_call(parts, f"this scan has {len(weights)} calls")
    return _case(str(parts), contract, setup, tensors, weights[number])


def problem_of_call(parts: CaseId) -> Problem:
    """The problem of a call's id, without drawing its inputs.

    Raises:
        InputError: As for ``call_of``, but for a call beyond the last one.
    """
    return _asked(parts)[0].problem


def _asked(parts: CaseId) -> tuple[Setup, int, float]:
    """The scan that a call's id names, the call's number, the offset of V."""
    found = _VARIANT.fullmatch(parts.variant)
    if found is None or not _SIZES <= parts.fields.keys():
        raise _no_call(parts, "the id names form, number, runs, spread, offset and every size")
    try:
        sizes = {name: int(parts.fields[name]) for name in ("batch", "heads", "kv_heads")}
        offset = float(found["offset"])
        setup = Setup(
            form=found["form"],
            **sizes,
            length=int(parts.fields["queries"]),
            head_dim=int(parts.fields["head_dim"]),
            causal=bool(parts.fields["causal"]),
            spread=float(found["spread"]),
            offsets=(offset,),
            runs=int(found["runs"]),
            seed=parts.seed,
        )
    except ValueError as error:
        raise _no_call(parts, f"spread and offset are numbers ({error})") from error
    number = int(found["number"])
    if (due := call_id(setup, number, offset=offset)) != parts:
        raise _no_call(parts, f"a call has one name, here {due}")
    return setup, number, offset


_VARIANT = re.compile(
    r"(?P<form>[a-z]+)-(?P<number>[0-9]{1,6})-of-(?P<runs>[0-9]{1,6})"
    r"-spread-(?P<spread>.+?)-offset-(?P<offset>.+)"
)
_SIZES = {"batch", "heads", "kv_heads", "queries", "keys", "head_dim", "causal"}


def _number(x: float) -> str:
    """The shortest text of a number: 4 and not 4.0."""
    return f"{x:g}" if float(f"{x:g}") == x else repr(x)


def _no_call(parts: CaseId, rule: str) -> InputError:
    return InputError(
        f"case {str(parts)!r}",
        rule=rule,
        fix="take the ids of a setup, from call_id in dmverify.conformance.families.tomography",
    )


def dealt(setup: Setup) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """Group and orthogonal row of every row, (H, N) each, and the number of groups M."""
    group, length = setup.problem.group, setup.length
    total = group * length
    most = total // SPACING if setup.form == "groups" else total
    count = -(-total // min(setup.head_dim, max(most, 1)))
    flat = np.tile(np.arange(total).reshape(group, length), (setup.kv_heads, 1))
    return flat % count, flat // count, count


def _walsh(setup: Setup, tensors: dict[str, F64]) -> tuple[dict[str, F64], list[F64]]:
    group, row, count = dealt(setup)
    rows = orthogonal_rows(setup.head_dim)
    filled = np.count_nonzero(rows[0])
    size = exact_magnitude(_spread(setup, tensors["k"]) * (setup.head_dim / filled) ** 0.5)
    queries = np.broadcast_to(rows[row].swapaxes(0, 1) * size, tensors["q"].shape)
    if setup.form == "groups":
        runs = min(setup.runs, count)
        factors = np.eye(count)[[(2 * r + 1) * count // (2 * runs) for r in range(runs)]]
    else:
        factors = walsh(1 << (count - 1).bit_length())
    shape = (setup.batch, setup.heads, setup.length)
    weights = [np.broadcast_to(factor[group], shape) for factor in factors]
    return tensors | {"q": queries}, weights


def _probe(setup: Setup, tensors: dict[str, F64]) -> tuple[dict[str, F64], list[F64]]:
    queries, keys = tensors["q"] * _spread(setup, tensors["k"]), tensors["k"].copy()
    keys[..., PROBE] = 0.0
    keys[..., PROBE] = exact_ceiling(float(np.abs(keys).max()))
    queries[..., PROBE] = 0.0
    weights = [np.ones((setup.batch, setup.heads, setup.length))]
    return tensors | {"q": queries, "k": keys}, weights


def _spread(setup: Setup, k: F64) -> float:
    """What queries of size 1 are multiplied with: keys that are drawn have size 1."""
    if setup.given is None:
        return setup.spread
    size = float(np.sqrt(np.mean((k - k.mean(1, keepdims=True)) ** 2)))
    return float(setup.spread / (abs(setup.problem.scale) * setup.head_dim**0.5 * size))


def _on_grid(x: F64) -> F64:
    return np.asarray(np.floor(x * GRID + 0.5) / GRID)
