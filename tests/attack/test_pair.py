"""A fault that one pair of codes sets off, somewhere in a large problem, is found and shrunk."""

import numpy as np
import torch

from dmverify.attack.engines import ENGINES, Best, Turn
from dmverify.attack.evaluate import Evaluator
from dmverify.attack.limits import get_limits
from dmverify.attack.objective import read_objective
from dmverify.attack.shrink import shrink
from dmverify.conformance.kernels.simulation import E4M3_MAX, Simulation
from dmverify.spec.problem import Problem

LARGE = Problem(1, 1, 1, 128, 128, 64, causal=False)
CHANNEL, Q_CODE, K_CODE = 7, 208.0, -176.0
TOKENS = 16


class OneCodePair(Simulation):
    """dQ of a query is 0 where its code meets a key's code in one channel; all else is right."""

    def backward(self, case):
        outputs = super().backward(case)
        ((ops, _, _),) = self._run(case)
        q, k = (self.codes(x) for x in (ops.q8, ops.k8))
        met = (q == Q_CODE)[..., :, None] & (k == K_CODE)[..., None, :]
        wrong = met.any(-1).transpose(1, 2)[..., None].numpy()
        outputs.dq[np.broadcast_to(wrong, outputs.dq.shape)] = 0
        return outputs

    @staticmethod
    def codes(x):
        """Of one channel, (C, H, N); one block a head in small problems."""
        scale = x.abs().amax((-2, -1), keepdim=True) / E4M3_MAX
        return torch.round(x / scale)[..., CHANNEL]


def test_one_pair_of_codes_in_a_large_problem_is_found_and_shrunk():
    gap = read_objective("gap:simulation", "inputs")
    asked = Evaluator(OneCodePair(), "article", LARGE, gap, get_limits("statistical"), Simulation())
    best = Best()
    ENGINES["random"](Turn(asked, 40, np.random.default_rng(0), best))
    assert (best.values == 0).any()  # most draws do not meet it
    assert best.value > 0.01
    small = shrink(asked, best.stack[:1])
    assert small.problem.queries + small.problem.keys <= TOKENS
    again = Evaluator(
        OneCodePair(), "article", small.problem, gap, get_limits("stress"), Simulation()
    )
    assert float(again.values(small.stack)[0]) >= 0.9 * best.value
