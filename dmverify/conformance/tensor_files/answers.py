"""Outputs that lie beside their inputs in a file, as a kernel: judged where none runs."""

from __future__ import annotations

from collections.abc import Sequence

from dmverify.conformance.adapter import Forward, Stored, Support, Supported, Unsupported
from dmverify.conformance.tensor_files.shelf import brought_outputs, find
from dmverify.errors import InputError, UnknownNameError
from dmverify.spec.case import Case, Outputs
from dmverify.spec.recording import Provenance

GRADIENTS = ("dq", "dk", "dv")


class AnswersOfFiles(Stored):
    """See ``dmverify.conformance.adapter.Kernel``.

    Args:
        files: Paths, for the report.
        contract: Name of the contract that they are judged by.

    Raises:
        InputError: If there is none.
    """

    def __init__(self, files: Sequence[str], contract: str | None) -> None:
        if contract is None:
            raise InputError(
                f"outputs in {', '.join(files)}, and no contract",
                rule="outputs are judged by a contract, and files do not name theirs",
                fix="name one with --contract",
            )
        self.contract = contract
        self.info = Provenance(f"outputs in {', '.join(files)}")

    def supports(self, case: Case) -> Support:
        """Cases with outputs."""
        there = "o" in find(case.id).answered
        return Supported() if there else Unsupported("the file holds no o beside these inputs")

    def forward(self, case: Case) -> Forward:
        """O, and LSE if it is there."""
        found = self._outputs(case)
        return Forward(found.o, found.lse)

    def backward(self, case: Case) -> Outputs:
        """Every output.

        Raises:
            NotImplementedError: If there are no gradients.
        """
        found = self._outputs(case)
        if not set(GRADIENTS) & set(found.names):
            raise NotImplementedError("the file holds no gradients beside these inputs")
        return found

    def _outputs(self, case: Case) -> Outputs:
        return Outputs(**brought_outputs(case.id))


def files_with_answers(case_ids: Sequence[str]) -> tuple[str, ...]:
    """The files that hold outputs of some of these cases."""
    found: dict[str, None] = {}
    for case_id in case_ids:
        try:
            kept = find(case_id)
        except UnknownNameError:  # of a family that draws its inputs
            continue
        if kept.answered and kept.source is not None:
            found[str(kept.source.path)] = None
    return tuple(found)
