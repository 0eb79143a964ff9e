"""How far the kernel's own sums may move a gradient before it is stored.

An element of dK (or dQ) is scale times a sum of products dS^ x operand, over rows (over keys). With
S its sum of abs(product), the error is at most gamma S:

| operand form | gamma | why |
|---|---|---|
| dequantised | (n + 8) u | n products that are not 0, any order, float32; scale and casts 8 more |
| codes | the same + 2^-13 (m + 2 L) if m > 1 | FP8 tensor core, chains of L, promoted |

n counts products that are not 0 (a zero adds no error), m those of one chain of one tile; u =
2^-24. A tensor core instruction truncates each product and the accumulator to a multiple of
2^(E - 13), 2^E being at most the largest of them, and its result to 14 bits; products of the same
exponent are exact. With one product a chain (m = 1) that is exact: a product of two E4M3 numbers
has 8 significant bits. So the form ``groups`` puts rows a tile apart.

S needs abs(dS^), which a black box does not show: ``SLACK`` times the float64 dS of the model plus
the row sum itself. E4M3 enlarges an element by at most 1/16, the zero-sum cast a row by 1/8.
Sources: Jeannerod and Rump, SIAM J. Matrix Anal. 34 (2013), for float32; the FP8 model is
``dmverify.spec.hopper``. Not covered: a kernel whose dS is more than ``SLACK`` times the model's.
"""

from __future__ import annotations

import numpy as np

from dmverify.conformance.tomography.designs import Call
from dmverify.spec.constants import constant
from dmverify.spec.contracts import Contract

U = float(constant("U"))
EXTRA = 8
SLACK = 1.25
INSTRUCTION = 32  # products of one FP8 instruction
TRUNCATION = 2.0**-13


def gamma_dk(contract: Contract, call: Call) -> float:
    """gamma of dK: sums over the rows of a group that have a gradient."""
    problem, tile = call.case.problem, contract.tile
    live = (call.weights != 0).reshape(problem.batch, problem.kv_heads, problem.group, -1)
    terms = int(live.sum((2, 3)).max(initial=0))
    padded = np.pad(live, [(0, 0)] * 3 + [(0, -live.shape[-1] % tile)])
    chain = padded.reshape(*padded.shape[:3], -1, tile).sum(-1)
    return _gamma(contract, terms, int(chain.max(initial=0)))


def gamma_dq(contract: Contract, call: Call) -> float:
    """gamma of dQ: sums over keys."""
    keys = call.case.problem.keys
    return _gamma(contract, keys, min(keys, contract.tile))


def _gamma(contract: Contract, terms: int, chain: int) -> float:
    single = (terms + EXTRA) * U
    if contract.operand_form == "dequantised" or chain <= 1:
        return single
    instructions = -(-contract.tile // INSTRUCTION)
    return single + TRUNCATION * (chain + 2 * instructions)
