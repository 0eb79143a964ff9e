"""The specification's own bits in the shape of a kernel, for demonstrations and planted faults.

``verify`` refuses to judge it, because its answer and the reference are the same program. It is
there to show a whole run without a GPU (``dmverify replay``), and as the ground on which faults are
planted, each of which must then be rejected.
"""

from __future__ import annotations

from dmverify.conformance.adapter import Forward, Support, Supported, Unsupported
from dmverify.spec.arithmetic import Bits
from dmverify.spec.attention import Interpretation, interpret
from dmverify.spec.case import Case, Internals, Outputs
from dmverify.spec.contracts import every_mode, get_contract
from dmverify.spec.recording import Provenance


class Emulator:
    """See ``dmverify.conformance.adapter.Kernel``."""

    contract = "bundled"
    contracts = every_mode("bundled")
    is_specification = True

    @property
    def info(self) -> Provenance:
        """Its name; what it computes is the specification of this version."""
        return Provenance(kernel="emulator")

    def supports(self, case: Case) -> Support:
        """Contracts that state every order."""
        contract = get_contract(case.contract)
        if not contract.bit_exact:
            return Unsupported(f"{contract.name} leaves an order open, so it has no bits")
        return Supported()

    def forward(self, case: Case) -> Forward:
        """O and LSE."""
        outputs = self._run(case).outputs
        return Forward(outputs.o, outputs.lse)

    def backward(self, case: Case) -> Outputs:
        """Every output."""
        return self._run(case).outputs

    def internals(self, case: Case) -> Internals | None:
        """The exact numbers inside; None for a call without heads."""
        return self._run(case, internals=True).internals

    def _run(self, case: Case, *, internals: bool = False) -> Interpretation:
        contract = get_contract(case.contract)
        return interpret(contract, case.problem, case.inputs, Bits(), internals=internals)
