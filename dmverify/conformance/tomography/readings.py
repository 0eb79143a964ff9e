"""From the gradients of one call to the row sums of its cast dS, with an error bar.

T_i = R_i + cast_i is the row sum of dS after the cast. Rows without a gradient have T = 0.

    dK:  sum_j dK_jc = scale sum_i T_i q^_ic, and the rows q^_i are orthogonal, so
         T_i = <q^_i, sum_j dK_j> / (scale |q^_i|^2)
    dQ:  K^_jc = kappa for all j, so T_i = dQ_ic / (scale kappa)

The bar is rigorous for a store to nearest: the same expression with half a unit of every stored
element (``stored``) and with what the kernel's sums may lose (``allowance``) in the place of dK or
dQ, and magnitudes in the place of q^. ``sigma`` is what the store does if errors are uniform and
independent, except that elements of one key with the same magnitude, which few rows with a gradient
produce, share their error up to the sign: a diagnostic, no bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dmverify.conformance.families.tomography.designs import PROBE, Call
from dmverify.conformance.tomography.allowance import SLACK, gamma_dk, gamma_dq
from dmverify.conformance.tomography.expected import Expected
from dmverify.conformance.tomography.stored import detect
from dmverify.errors import ContractError
from dmverify.spec.case import F32, F64, Outputs
from dmverify.spec.contracts import Contract
from dmverify.spec.lemmas import rests_on

OWN = 2.0**-50  # relative: our float64 sums of up to some thousand terms, far below any store


@dataclass(frozen=True, eq=False)
class Reading:
    """What one call shows.

    Attributes:
        value: T with the sign of the row's weight, (B, H, N); means nothing where that is 0.
        bar: Largest error of ``value``.
        sigma: Standard deviation of the store's error.
        stored: Name of the format that was seen.
    """

    value: F64
    bar: F64
    sigma: F64
    stored: str


def read(contract: Contract, call: Call, *, outputs: Outputs, expected: Expected) -> Reading:
    """Reads dQ where K has a probe channel, dK elsewhere.

    Args:
        contract: The numerics that the kernel was asked for.
        call: The question.
        outputs: The answer, finite.
        expected: The same call, computed.

    Raises:
        ContractError: If the contract rounds or centres the probes, or the stored format is not
            one that ``stored`` covers.
    """
    reader = _from_dq if call.case.id.startswith("tomography/probe") else _from_dk
    return reader(contract, call, outputs, expected)


@rests_on("column-sum")
def _from_dk(contract: Contract, call: Call, outputs: Outputs, expected: Expected) -> Reading:
    q, problem = expected.q, call.case.problem
    if (q != call.case.inputs.q.swapaxes(1, 2)).any():
        raise _rounded(contract, "queries of magnitude 7 * 2^k")
    form = detect(outputs.dk)
    half = form.half_units(outputs.dk)
    column = outputs.dk.astype(np.float64).sum(1)
    value = _project(q, column) / problem.scale
    store = _project(np.abs(q), half.sum(1)) / problem.scale
    sigma = _store_sigma(call, q, outputs.dk, half) / problem.scale
    own = OWN * _project(np.abs(q), np.abs(outputs.dk).astype(np.float64).sum(1)) / problem.scale
    live = call.weights != 0
    size = SLACK * (expected.size + np.abs(np.where(live, value, 0.0)))
    grouped = (size[..., None] * np.abs(q)).reshape(
        problem.batch, problem.kv_heads, problem.group, problem.queries, problem.head_dim
    )
    sums = gamma_dk(contract, call) * _project(np.abs(q), grouped.sum((2, 3)))
    return Reading(value, store + sums + own, sigma, form.name)


def _from_dq(contract: Contract, call: Call, outputs: Outputs, expected: Expected) -> Reading:
    problem = call.case.problem
    probes = expected.k[..., PROBE]
    kappa = float(call.case.inputs.k[..., PROBE].max())
    if (probes != kappa).any():
        raise _rounded(contract, "a channel of K that is one constant")
    form = detect(outputs.dq)
    half = form.half_units(outputs.dq)[..., PROBE].swapaxes(1, 2)
    shown: F32 = outputs.dq[..., PROBE].swapaxes(1, 2)
    unit = problem.scale * kappa
    value = shown.astype(np.float64) / unit
    sums = gamma_dq(contract, call) * SLACK * (expected.size + np.abs(value))
    bar = half / unit + sums + OWN * np.abs(value)
    return Reading(value, bar, half / 3**0.5 / unit, form.name)


def _project(q: F64, column: F64) -> F64:
    """<q_i, column> / |q_i|^2, (B, H, N), from columns (B, Hkv, D)."""
    wide = np.repeat(column, q.shape[1] // column.shape[1], axis=1)
    return np.asarray(np.einsum("bhnd,bhd->bhn", q, wide) / (q**2).sum(-1))


def _store_sigma(call: Call, q: F64, dk: F32, half: F64) -> F64:
    """Standard deviation of the store's error in <q_i, sum_j dK_j> / |q_i|^2, (B, H, N)."""
    sigma = np.zeros(q.shape[:3])
    for b, h in np.ndindex(*q.shape[:2]):
        rows, kv = np.flatnonzero(call.weights[b, h]), h // call.case.problem.group
        found, unit = dk[b, :, kv].astype(np.float64), half[b, :, kv]
        order = np.argsort(np.abs(found), axis=1)
        sizes = np.take_along_axis(np.abs(found), order, 1)
        new = np.diff(sizes, axis=1, prepend=-1.0) != 0  # a magnitude not met before in this key
        starts = np.flatnonzero(new)
        directions, which = np.unique(q[b, h, rows], axis=0, return_inverse=True)
        signed = np.sign(found)[None] * directions[:, None, :]
        ordered = np.take_along_axis(signed, np.broadcast_to(order, signed.shape), 2)
        shared = np.add.reduceat(ordered.reshape(len(directions), found.size), starts, axis=1)
        once = np.take_along_axis(unit, order, 1).reshape(-1)[starts]
        sigma[b, h, rows] = np.sqrt((shared**2 @ once**2) / 3)[which]
    return np.asarray(sigma / (q**2).sum(-1))


def _rounded(contract: Contract, what: str) -> ContractError:
    return ContractError(
        contract.name,
        rule=f"tomography needs {what}, exact after the contract's centring and rounding",
        fix="use another form (dmverify tomograph --form), or a contract without centring",
    )
