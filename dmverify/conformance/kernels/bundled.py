"""The bundled Hopper kernel as a kernel under test.

| a case is served if | else unsupported, with this reason |
|---|---|
| its contract is ``bundled`` in some delta mode and cast, keys centred or | another contract |
| not (``centre_k=none``), by either ``normaliser`` | |
| head_dim is 64, 128 or 256 | another head dim |
| the kernels count its tokens and heads right (kernel/limits.py) | which limit it is above |
| the machine has a Hopper GPU | no Hopper GPU |

The contract of a case chooses all of that, so one object serves every such contract. Those of
``Bundled.contracts`` are asked by turns; the others when they are named.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import torch

from dmverify.conformance.adapter import Forward, Support, Supported, Unsupported
from dmverify.conformance.kernels.bundled_inside import inside
from dmverify.conformance.kernels.bundled_launch import (
    Choices,
    launch,
    launch_forward,
    on_host,
    options_for,
    options_of,
    place,
)
from dmverify.conformance.kernels.certify import (
    FLAG_SETS,
    label,
    machine_code,
    source_hash,
    variants_of,
)
from dmverify.conformance.kernels.machine import gpu_and_driver
from dmverify.errors import ContractError
from dmverify.kernel.api import HEAD_DIMS
from dmverify.kernel.build import VERSIONS, BuildVariant, build
from dmverify.kernel.errors import UnsupportedError
from dmverify.kernel.limits import check_sizes
from dmverify.spec.case import Case, Internals, Outputs
from dmverify.spec.contracts import every_mode
from dmverify.spec.problem import Problem
from dmverify.spec.recording import Provenance

HOPPER = (9, 0)
MOST_SCORES = 1 << 24  # of a case whose inside is shown: each is a dozen float64 on the host


class Bundled:
    """See ``dmverify.conformance.adapter.Kernel``.

    Args:
        choices: How to build it; other choices must give the same bits.
    """

    contract = "bundled"
    contracts = every_mode("bundled")

    def __init__(self, choices: Choices = Choices()) -> None:  # noqa: B008 - frozen
        self._choices = choices
        self._ran: set[BuildVariant] = set()

    @property
    def info(self) -> Provenance:
        """What runs; ``build`` covers the machine code of the variants that have run so far."""
        choices = self._choices
        return Provenance(
            kernel="bundled",
            source=source_hash(choices.edits),
            build=self._build_hash(),
            compiler=VERSIONS[choices.compiler](),
            flags=choices.flags,
            **machine(),
        )

    def supports(self, case: Case) -> Support:
        """The table above."""
        sizes = case.problem.shapes()
        try:
            options_of(case, self._choices)
            check_sizes(sizes["q"], sizes["k"])
        except (ContractError, UnsupportedError) as error:
            return Unsupported(str(error))
        if case.problem.head_dim not in HEAD_DIMS:
            return Unsupported(f"head_dim {case.problem.head_dim} is not one of {HEAD_DIMS}")
        if not hopper_present():
            return Unsupported("no Hopper GPU (compute capability 9.0) on this machine")
        return Supported()

    def forward(self, case: Case) -> Forward:
        """O and LSE of a forward pass alone."""
        options = options_of(case, self._choices)
        o, lse = launch_forward(place(case), options)
        return Forward(on_host(o), on_host(lse))

    def backward(self, case: Case) -> Outputs:
        """Every output; delta too unless a length is 0."""
        self.count(case.contract, case.problem)
        return launch(place(case), options_of(case, self._choices)).outputs()

    def internals(self, case: Case) -> Internals | None:
        """The numbers inside a dump build's run; None if a length is 0 or they are too many."""
        problem = case.problem
        heads = problem.batch * problem.heads
        if not 0 < heads * problem.queries * problem.keys <= MOST_SCORES:
            return None
        return inside(case, self._choices)

    def count(self, contract: str, problem: Problem) -> None:
        """Counts the variants that serve such a case among those that have run."""
        options = options_for(contract, problem, self._choices)
        self._ran |= set(variants_of(options, problem.head_dim))

    def cubins(self) -> dict[str, bytes]:
        """Machine code of the variants that have run so far."""
        return {label(one): self._build(one) for one in sorted(self._ran, key=str)}

    def builds(self) -> dict[str, Bundled]:
        """Two builds whose flags change arithmetic elsewhere; the acceptance runs all thirteen."""
        sets = {name: FLAG_SETS[name] for name in ("fast-math", "no-fmad")}
        return {
            name: Bundled(replace(self._choices, compiler=one.compiler, flags=one.flags))
            for name, one in sets.items()
        }

    def _build(self, variant: BuildVariant) -> bytes:
        choices = self._choices
        made = build(variant, compiler=choices.compiler, flags=choices.flags, edits=choices.edits)
        return made.cubin

    def _build_hash(self) -> str:
        digest = hashlib.sha256()
        for variant in sorted(self._ran, key=str):
            digest.update(f"{variant} {machine_code(self._build(variant))}\n".encode())
        return digest.hexdigest() if self._ran else ""


def hopper_present() -> bool:
    """Whether this machine has a Hopper GPU that torch can use."""
    return torch.cuda.is_available() and torch.cuda.get_device_capability() == HOPPER


def machine() -> dict[str, str]:
    """Device and driver, for a recording."""
    if not torch.cuda.is_available():
        return {"device": "cpu", "driver": ""}
    return gpu_and_driver()
