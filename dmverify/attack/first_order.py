"""How much error the roundings could make along the error's direction: a first-order estimate.

With u = error / |error| of the output that is attacked,

    worst = sum over roundings r of |d <u, output> / d r| * half a unit in the last place of r

over every element of Q^, K^, V^, dO^ (against the inputs), of the weights, P and dS (E4M3), of the
output's store (BF16), and delta's distance from the row sum of P dP as it is. Zeros and the largest
number of a block, which decides its scale, are exact and count nothing. Products of two
rounding errors, float32 sums and exponentials are left out, so this is an estimate and no bound: an
error may exceed it. The *share* is |error| / worst.
Straight-through gradients of the simulation (``engines.through``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dmverify.attack.cells import half_units, half_units_inward
from dmverify.attack.engines.through import Differentiable, served
from dmverify.attack.evaluate import Evaluator
from dmverify.attack.reference import exact
from dmverify.attack.stack import Stack
from dmverify.conformance.kernels.simulation import (
    E4M3_MAX,
    BackwardState,
    ForwardState,
    Operands,
)
from dmverify.errors import InputError
from dmverify.spec.contracts import Contract, Rows, get_contract

HALF_BF16 = 2.0**-8  # half a unit in the last place over a number's binade
LEAST = 2.0**-100  # of the largest magnitude, in a block of zeros
LARGEST = 1 - 2.0**-20  # float32's last bits below the largest number of a block
ERRORS = ("o", "dq", "dk", "dv")
OPERANDS, SHARED = ("Q", "K", "V", "dO"), ("K", "V")
TINY = 1e-300


@dataclass(frozen=True)
class Term:
    """The roundings of one tensor.

    Attributes:
        name: What is rounded.
        worst: What they could make of the error along its direction.
        made: What they made, by their own errors, with its sign.
    """

    name: str
    worst: float
    made: float


@dataclass(frozen=True)
class FirstOrder:
    """The estimate for one candidate.

    Attributes:
        error: Norm of the error.
        terms: What made most of it first.
    """

    error: float
    terms: tuple[Term, ...]

    @property
    def worst(self) -> float:
        """The sum of the terms."""
        return sum(term.worst for term in self.terms)

    @property
    def share(self) -> float:
        """The error over it."""
        return self.error / self.worst if self.worst else 0.0


def first_order(evaluator: Evaluator, candidate: Stack) -> FirstOrder:
    """The estimate for a candidate, on the simulation in the kernel's place.

    Raises:
        InputError: For an objective that is no error of an output.
    """
    name = evaluator.objective.name
    if name not in ERRORS:
        raise InputError(
            f"a first-order estimate of {name}",
            rule=f"it is derived for errors of {', '.join(ERRORS)}",
            fix="maximise one of them",
        )
    leaves = Stack(*(x.clone().requires_grad_() for x in candidate.tensors()))
    kernel = Differentiable(leaves)
    contract = get_contract(served(get_contract(evaluator.contract)))
    problem = replace(evaluator.problem, batch=1)
    case = replace(candidate.case(evaluator.problem, contract.name), problem=problem)
    ((ops, fwd, bwd),) = kernel._run(case)
    scale = evaluator.problem.scale
    outputs = {"o": fwd.o32, "dq": kernel._dq(bwd.ds8, ops, scale), "dk": bwd.dk, "dv": bwd.dv}
    stored = kernel._store(outputs[name].detach())
    due = exact(evaluator.problem, evaluator.seen_by_kernel(candidate), sizes=False).outputs[name]
    error = stored.double() - due.transpose(1, 2)
    u = (error / error.norm().clamp_min(TINY)).float()
    sites = _sites(contract, kernel, ops, fwd, bwd)
    if evaluator.objective.against == "operands":
        sites = tuple(site for site in sites if site.name not in OPERANDS)
    wanted = [*(site.rounded for site in sites), bwd.ds]
    *slopes, of_ds = torch.autograd.grad((u * outputs[name]).sum(), wanted, allow_unused=True)
    terms = [
        _term(site, slope, evaluator.problem.group)
        for site, slope in zip(sites, slopes, strict=True)
        if slope is not None
    ]
    if of_ds is not None:
        terms.append(_delta(bwd, of_ds))
    half = _binade(stored) * HALF_BF16
    made = float((u * (stored - outputs[name].detach())).sum())
    terms.append(Term("store", float((u.abs() * half).sum()), made))
    found = sorted(terms, key=lambda term: -abs(term.made))
    return FirstOrder(float(error.norm()), tuple(found))


@dataclass(frozen=True, eq=False)
class _Site:
    """A tensor of E4M3 numbers, what it was before, and the rows and columns of its blocks."""

    name: str
    rounded: Tensor
    before: Tensor
    rows: int | None
    columns: int | None = None


def _sites(
    contract: Contract, kernel: Differentiable, ops: Operands, fwd: ForwardState, bwd: BackwardState
) -> tuple[_Site, ...]:
    assert isinstance(contract.schedule, Rows)
    group, tile = contract.schedule.p_group, contract.schedule.tile
    k, v = kernel.keys_and_values(ops)
    return (
        _Site("Q", ops.q8, ops.q, contract.q_block),
        _Site("K", ops.k8, k, contract.k_block),
        _Site("V", ops.v8, v, contract.v_block),
        _Site("dO", ops.do8, ops.do, contract.do_block),
        _Site("weights", fwd.e8, fwd.e, 1, group),
        _Site("P", bwd.p8, bwd.p, tile, tile),
        _Site("dS", bwd.ds8, bwd.ds, tile, tile),
    )


def _term(site: _Site, slope: Tensor, group: int) -> Term:
    codes, before = site.rounded.detach(), site.before.detach()
    scale = _scales(before.abs(), site.rows, site.columns).clamp_min(LEAST) / E4M3_MAX
    if site.name in SHARED:  # one rounding, seen by all query heads of a group
        slope = slope.reshape(len(slope), -1, group, *slope.shape[2:]).sum(2)
        codes, before, scale = (x[:, ::group] for x in (codes, before, scale))
    made = float((slope * (codes - before)).sum())
    return Term(site.name, float((slope.abs() * _room(codes, before, scale, slope)).sum()), made)


def _room(codes: Tensor, before: Tensor, scale: Tensor, slope: Tensor) -> Tensor:
    """The largest rounding error of every number in the direction of its slope, its code as it is.

    Half a unit in the last place, half as much on the inner side of a power of two. The largest
    number of a block decides its scale, and zeros are exact: neither has an error.
    """
    inner = codes * slope > 0  # rounded away from 0
    half = torch.where(inner, half_units_inward(codes, scale), half_units(codes, scale))
    exact = (before == 0) | (before.abs() >= scale * E4M3_MAX * LARGEST)
    return half.masked_fill(exact, 0.0)


def _delta(bwd: BackwardState, of_ds: Tensor) -> Term:
    """What delta differs from the row sum of P dP: the mode's own doing."""
    p, dp = bwd.p.detach(), bwd.dp.detach()
    slope = -(p * of_ds).sum(-1)
    wrong = bwd.delta.detach() + bwd.shift.detach() - (p.double() * dp).sum(-1)
    return Term("delta", float((slope * wrong).abs().sum()), float((slope * wrong).sum()))


def _scales(size: Tensor, rows: int | None, columns: int | None) -> Tensor:
    """The largest magnitude of every block, at every element."""
    n, m = size.shape[-2:]
    height, width = min(rows or n, n), min(columns or m, m)
    found = torch.empty_like(size)
    for i in range(0, n, height):
        for j in range(0, m, width):
            part = size[..., i : i + height, j : j + width]
            found[..., i : i + height, j : j + width] = part.amax((-2, -1), keepdim=True)
    return found


def _binade(x: Tensor) -> Tensor:
    """The power of two at or below |x|; 0 for 0."""
    size = x.abs()
    return torch.where(size > 0, torch.exp2(size.clamp_min(2.0**-120).log2().floor()), 0.0)
