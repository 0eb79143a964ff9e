import numpy as np
import pytest
import torch

from dmverify.attack.evaluate import Evaluator
from dmverify.attack.limits import get_limits
from dmverify.attack.objective import read_objective
from dmverify.attack.stack import NAMES, Stack
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.spec.problem import Problem

SMALL = Problem(1, 1, 1, 16, 16, 32, causal=False)


def drawn(problem, count=1, seed=0, spread=1.0):
    """Candidates from N(0, spread^2) in BF16."""
    rng = np.random.default_rng(seed)
    shapes = problem.shapes()
    tensors = (rng.standard_normal((count, *shapes[name][1:])) * spread for name in NAMES)
    return Stack(*(torch.from_numpy(x.astype(np.float32)).bfloat16().float() for x in tensors))


@pytest.fixture
def evaluator():
    """Makes one, of the simulation on a small problem."""

    def made(objective="dq", against="inputs", contract="article", problem=SMALL, kernel=None):
        return Evaluator(
            kernel or Simulation(),
            contract,
            problem,
            read_objective(objective, against),
            get_limits("statistical"),
        )

    return made
