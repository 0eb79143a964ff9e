"""The simulation under a contract of somebody's own, kept and not kept."""

from dmverify.conformance.adapter import Supported
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.spec.contracts import ARTICLE

MINE = "article:q_block=whole,k_block=32,p_group=16,tile=32"


class Kept(Simulation):
    """It keeps the contract that it is asked under, and promises one that is no named one."""

    contract = MINE


class Ignored(Simulation):
    """It computes as ``article``, whatever it is asked under."""

    contract = MINE

    def supports(self, case):
        return Supported()

    def _operands(self, contract, case):
        return super()._operands(ARTICLE, case)

    def _forward(self, contract, problem, ops):
        return super()._forward(ARTICLE, problem, ops)

    def _backward(self, contract, problem, ops, fwd):
        return super()._backward(ARTICLE, problem, ops, fwd)
