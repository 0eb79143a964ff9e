"""Records the bundled kernel: ``python -m dmverify.conformance.kernels.record_bundled DIR``.

The cases are one per delta mode, cast, head dim and mask, each from another family of inputs, so
that a replay on any CPU meets every variant of the kernel. The recording is checked nowhere here.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import cycle, product

from dmverify.conformance.adapter import Supported
from dmverify.conformance.families import generate, list_cases, parse_case_id
from dmverify.conformance.kernels.bundled import Bundled
from dmverify.conformance.store import save
from dmverify.kernel.api import HEAD_DIMS
from dmverify.kernel.build import MODES
from dmverify.spec.recording import Answer, Recording

CASTS = ("nearest", "zero-sum")
LARGEST = 150_000  # numbers in a case's outputs: a recording that ships stays small


def record(directory: str, *, seed: int = 0, per_contract: int = 3) -> Recording:
    """Runs the cases and saves the answers to a new directory."""
    kernel = Bundled()
    names = cycle(_usable(kernel, seed))
    answers = []
    for mode, cast in product(MODES, CASTS):
        contract = f"bundled:delta={mode},ds_cast={cast}"
        for _ in range(per_contract):
            case = generate(next(names), contract=contract)
            answers.append(Answer(case.id, contract, kernel.backward(case)))
    recording = Recording(kernel.info, tuple(answers))
    save(recording, directory)
    return recording


def _usable(kernel: Bundled, seed: int) -> list[str]:
    """Case ids that the kernel serves and whose outputs are small."""
    kept = []
    for listed, head_dim in zip(list_cases(seed=seed), cycle(HEAD_DIMS), strict=False):
        if listed.startswith("capture/"):
            continue
        parts = parse_case_id(listed)
        name = str(replace(parts, fields={**parts.fields, "head_dim": head_dim}))
        case = generate(name)
        size = 3 * (case.inputs.q.size + case.inputs.k.size)
        if isinstance(kernel.supports(case), Supported) and size <= LARGEST:
            kept.append(name)
    return kept


if __name__ == "__main__":
    record(sys.argv[1])
