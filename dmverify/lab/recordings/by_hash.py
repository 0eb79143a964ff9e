"""The hashes of an H200's outputs as a kernel: what has the recorded hash is what it answered.

The outputs are computed anew from the specification's bits and given out only if the hash of every
one is the recorded one, so the numbers are those of the hardware. This brings the checks that
know nothing of bits (enclosures, ledger, identities) to hundreds of answers whose numbers were
never stored.

Not covered: a case whose hash differs has no numbers; ``recorded-digests`` reports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dmverify.conformance.adapter import Forward, Stored, Support, Supported, Unsupported
from dmverify.errors import RecordingError
from dmverify.lab.recordings.digests import Digests, digest_of, shortened
from dmverify.lab.recordings.shipped import DATA, digests_in, expected
from dmverify.spec.case import Case, Outputs
from dmverify.spec.recording import Provenance


class ByHash(Stored):
    """See ``dmverify.conformance.adapter.Kernel``.

    Args:
        digests: Hashes; the shipped ones if left out.
    """

    contract = "bundled"

    def __init__(self, digests: Digests | None = None) -> None:
        self._digests = digests_in(DATA) if digests is None else digests
        self._last: tuple[tuple[str, str], Outputs] | None = None

    @property
    def info(self) -> Provenance:
        """What made the hashes."""
        return self._digests.producer

    @property
    def cases(self) -> Mapping[tuple[str, str], dict[str, str]]:
        """Hashes of every output, by case id and contract."""
        return self._digests.cases

    def supports(self, case: Case) -> Support:
        """Recorded cases only."""
        if (case.id, case.contract) in self.cases:
            return Supported()
        return Unsupported("no hash of this case was recorded")

    def forward(self, case: Case) -> Forward:
        """O and LSE; see ``backward``."""
        outputs = self.backward(case)
        return Forward(outputs.o, outputs.lse)

    def backward(self, case: Case) -> Outputs:
        """Every output.

        Raises:
            RecordingError: If one has not the recorded hash.
        """
        key = case.id, case.contract
        if self._last is None or self._last[0] != key:
            self._last = key, _admitted(case, shortened(self.cases[key]))
        return self._last[1]


def _admitted(case: Case, hashes: Mapping[str, str]) -> Outputs:
    outputs = expected(case)
    if "delta" not in hashes:  # the kernel returns none where a length is 0
        outputs = replace(outputs, delta=None)
    found = shortened(digest_of(outputs))
    wrong = sorted(name for name in found.keys() | hashes if found.get(name) != hashes.get(name))
    if wrong:
        raise RecordingError(
            f"{case.id} under {case.contract}: the hash of {', '.join(wrong)}",
            rule="numbers stand for the hardware's if each output has the recorded hash",
            fix="see what differs with dmverify verify bundled --case on a Hopper GPU",
        )
    return outputs
