"""The kill matrix of the CUDA kernel that ships, as ``dmverify faults --kernel bundled`` said it.

One JSON document with the producer (kernel source, compiler, device, driver) and a row for every
fault: verdict, checks with and without the comparison of bits, public rules, error.
"""

from __future__ import annotations

from dmverify.lab.recordings.shipped import DATA

RECORDED = DATA / "faults_cuda.json"
"""Where it is."""

UNSEEN = {"q-wait-missing-forward"}
"""Faults that the recorded run did not reject: in 100 runs the copy of Q had always arrived. It
begins late since; the run stays as it was written."""
