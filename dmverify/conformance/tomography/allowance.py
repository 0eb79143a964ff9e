"""How far the kernel's own sums may move a gradient before it is stored.

An element of dK (or dQ) is scale times a sum of products dS^ x operand, over rows (over keys). With
S its sum of abs(product), the error is at most gamma S:

| dots run on | gamma | why |
|---|---|---|
| dequantised | (n + 8) u | n products that are not 0, any order, float32; scale and casts 8 more |
| bf16 | (n + 3 s + 8) u | the same on a BF16 tensor core, s steps with such a product |
| codes | (n + 8) u + 2^-13 (m + 2 L) if m > 1 | FP8 tensor core, chains of L, promoted |
| whole | (n + 8) u + 2^-13 (n + 2 s) if n > 1 | FP8 tensor core, one chain: tiles are not public |

n counts products that are not 0 (a zero adds no error), m those of one chain of one tile; s is n or
the steps of a tensor core over all rows, if these are fewer; u = 2^-24. An FP8 instruction
truncates each product and the accumulator to a multiple of 2^(E - 13), 2^E being at most the
largest of them, and its result to 14 bits; products of the same exponent are exact. With one
product a chain that is exact: a product of two E4M3 numbers has 8 significant bits. So the form
``groups`` puts rows a tile apart. A BF16 product has 16 bits and is kept to at least 24.

S needs abs(dS^), which a black box does not show: ``SLACK`` times the float64 dS of the model plus
the row sum itself. E4M3 enlarges an element by at most 1/16, the zero-sum cast a row by 1/8.
Sources: Jeannerod and Rump, SIAM J. Matrix Anal. 34 (2013), for float32; the FP8 model is
``dmverify.spec.hopper``, the BF16 one ``dmverify.spec.arithmetic.enclosure_open``. Not covered: a
kernel whose dS is more than ``SLACK`` times the model's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dmverify.conformance.families.tomography.designs import Call
from dmverify.spec.constants import constant
from dmverify.spec.contracts import Contract

U = float(constant("U"))
BF16_STEP, BF16_STEP_LOSS = (int(constant(name)) for name in ("BF16_STEP", "BF16_STEP_LOSS"))
EXTRA = 8
SLACK = 1.25
INSTRUCTION = 32  # products of one FP8 instruction
TRUNCATION = 2.0**-13


@dataclass(frozen=True)
class Terms:
    """The products of one sum.

    Attributes:
        live: Most that are not 0.
        chain: Most that are not 0 in one tile of the contract.
        length: All.
    """

    live: int
    chain: int
    length: int


def gamma_dk(contract: Contract, call: Call) -> float:
    """gamma of dK: sums over the rows of a group that have a gradient."""
    problem = call.case.problem
    rows = problem.group * problem.queries
    tile = contract.schedule.step(max(rows, 1))
    live = (call.weights != 0).reshape(problem.batch, problem.kv_heads, problem.group, -1)
    padded = np.pad(live, [(0, 0)] * 3 + [(0, -live.shape[-1] % tile)])
    chain = padded.reshape(*padded.shape[:3], -1, tile).sum(-1)
    terms = int(live.sum((2, 3)).max(initial=0))
    return gamma(contract, Terms(terms, int(chain.max(initial=0)), rows))


def gamma_dq(contract: Contract, call: Call) -> float:
    """gamma of dQ: sums over keys."""
    keys = call.case.problem.keys
    return gamma(contract, Terms(keys, min(keys, contract.schedule.step(keys)), keys))


def gamma(contract: Contract, terms: Terms) -> float:
    """The factor of the table above."""
    single = (terms.live + EXTRA) * U
    fp8, bf16 = (min(terms.live, -(-terms.length // k)) for k in (INSTRUCTION, BF16_STEP))
    tile = -(-contract.schedule.step(terms.length) // INSTRUCTION)
    more = {
        "dequantised": 0.0,
        "bf16": BF16_STEP_LOSS * bf16 * U,
        "codes": TRUNCATION * (terms.chain + 2 * tile) if terms.chain > 1 else 0.0,
        "whole": TRUNCATION * (terms.live + 2 * fp8) if terms.live > 1 else 0.0,
    }
    return single + more[contract.schedule.operands]
