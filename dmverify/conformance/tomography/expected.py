"""What a call should give, in float64 on the contract's own operands, and what each delta leaves.

For a row with a gradient, a hat marking a dequantised operand and O the kernel's answer:

    P = softmax(scale q^ K^^T),  dP = dO^ V^^T,  exact delta = sum_j P dP,  dS = P (dP - delta)

and three coordinates in which the shortcuts differ:

    shortcut  delta - <dO^, O>          what <dO^, O> leaves as row sum
    gradient  <dO^ - dO, O>             what reading dO instead of dO^ adds
    store     <dO^, O - O8>             what reading O in E4M3 adds; 0 if O is such numbers

The row sum is shortcut + gradient if stale, shortcut if consistent, 0 if matched (renormalized,
shifted and associated likewise), all but for round-off, the cast of dS and the kernel's own P.

A shortcut that leaves x adds x P_ij to row i of dS, so x also shows in the row's shape. With s_ij =
<q^_i, dK_j> / (scale |q^_i|^2), the row of dS^ that dK holds, and c_ij = P_ij less its mean,

    lean = sum_j (s_ij - dS_ij) c_ij / sum_j c_ij^2

estimates x. It is coarser than the row sum, and blind to what the row sum shows alone: a constant
taken off every row of dK (to make its columns sum to zero) changes one and not the other.

Sources: Tang et al., arXiv 2609.37852, eq. 2. Not covered: O8 under a scale that is no power of two
(unless the kernel returns it).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dmverify.conformance.families.tomography.designs import Call
from dmverify.spec.attention.operands import prepare
from dmverify.spec.case import F32, F64, Outputs
from dmverify.spec.contracts import Contract
from dmverify.spec.formats import E4M3
from dmverify.spec.scaling import fitting_exponent

COORDINATES = ("shortcut", "gradient", "store")


@dataclass(frozen=True, eq=False)
class Expected:
    """One call, computed.

    Attributes:
        q: Dequantised, (B, H, N, D).
        k: Dequantised, after centring, (B, Hkv, N, D).
        size: sum_j |dS|, (B, H, N); 0 where dO is 0.
        coordinates: By name, (B, H, N) each.
        lean: x from the shape of the row, (B, H, N).
        outputs: o, dq and dk, (B, N, H, D) each; rows without a gradient are 0 in o and dq.
    """

    q: F64
    k: F64
    size: F64
    coordinates: dict[str, F64]
    lean: F64
    outputs: dict[str, F64]


def operands(contract: Contract, call: Call) -> dict[str, F64]:
    """The dequantised q, k, v, do of a call, (B, H, N, D) each."""
    problem = call.case.problem
    ready = prepare(contract, problem, call.case.inputs, cast=True)
    lengths = {"q": problem.queries, "do": problem.queries, "k": problem.keys, "v": problem.keys}
    wide = {n: x.astype(np.float64) * s.astype(np.float64) for n, (x, s) in ready.tensors.items()}
    return {name: x[:, :, : lengths[name]] for name, x in wide.items()}


def expect(contract: Contract, call: Call, *, answer: Outputs) -> Expected:
    """Computes a call.

    Args:
        contract: Gives the operands.
        call: The question.
        answer: What the kernel returned, finite; o and dk are read.
    """
    problem, ops = call.case.problem, operands(contract, call)
    shapes = problem.shapes()
    made = Expected(
        q=ops["q"],
        k=ops["k"],
        size=np.zeros(shapes["lse"]),
        coordinates={name: np.zeros(shapes["lse"]) for name in COORDINATES},
        lean=np.zeros(shapes["lse"]),
        outputs={name: np.zeros(shapes[name]) for name in ("o", "dq", "dk")},
    )
    seen = {"o": answer.o, "o8": as_e4m3(answer.o), "dk": answer.dk}
    wide = {name: x.astype(np.float64) for name, x in seen.items()}
    for batch in range(problem.batch):
        for head in range(problem.heads):
            _head(call, ops, made, wide, (batch, head))
    return made


def _head(
    call: Call, ops: dict[str, F64], made: Expected, answer: dict[str, F64], at: tuple[int, int]
) -> None:
    """Fills in one (batch, query head)."""
    problem, (b, h) = call.case.problem, at
    rows = np.flatnonzero(call.weights[b, h])
    kv = h // problem.group
    q, k, v, do = ops["q"][b, h, rows], ops["k"][b, kv], ops["v"][b, kv], ops["do"][b, h, rows]
    p = _softmax(q @ k.T * problem.scale, problem.mask()[rows])
    dp = do @ v.T
    delta = (p * dp).sum(1)
    ds = p * (dp - delta[:, None])
    o, o8 = (answer[name][b, rows, h] for name in ("o", "o8"))
    raw = call.case.inputs.do[b, rows, h].astype(np.float64)
    made.size[b, h, rows] = np.abs(ds).sum(1)
    made.coordinates["shortcut"][b, h, rows] = delta - (do * o).sum(1)
    made.coordinates["gradient"][b, h, rows] = ((do - raw) * o).sum(1)
    made.coordinates["store"][b, h, rows] = (do * (o - o8)).sum(1)
    made.lean[b, h, rows] = _lean(q, answer["dk"][b, :, kv] / problem.scale, p, ds)
    made.outputs["o"][b, rows, h] = p @ v
    made.outputs["dq"][b, rows, h] = problem.scale * (ds @ k)
    made.outputs["dk"][b, :, kv] += problem.scale * (ds.T @ q)


def _lean(q: F64, dk: F64, p: F64, ds: F64) -> F64:
    shape = p - p.mean(1, keepdims=True)
    shown = (q * (shape @ dk)).sum(1) / (q**2).sum(1)
    size = (shape**2).sum(1)
    return np.asarray((shown - (shape * ds).sum(1)) / np.where(size > 0, size, 1.0))


def as_e4m3(o: F32) -> F32:
    """O rounded to E4M3 under the power of two that brings its largest magnitude up to 448."""
    factor = np.exp2(fitting_exponent(np.abs(o).max(initial=0.0, keepdims=True)).astype(np.float32))
    rounded: F32 = E4M3.round(o * factor) / factor
    return rounded


def _softmax(scores: F64, seen: np.typing.NDArray[np.bool_]) -> F64:
    """Rows that see nothing are 0."""
    hidden = np.where(seen, scores, -np.inf)
    peak = np.where(seen.any(1), hidden.max(1, initial=-np.inf), 0.0)[:, None]
    e = np.exp(hidden - peak)
    total = e.sum(1, keepdims=True)
    return np.asarray(e / np.where(total > 0, total, 1.0))
