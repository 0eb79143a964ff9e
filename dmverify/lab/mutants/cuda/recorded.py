"""The kill matrix of the CUDA kernel that ships, as ``dmverify faults --kernel bundled`` said it.

One JSON document with the producer (kernel source, compiler, device, driver) and a row for every
fault: verdict, checks with and without the comparison of bits, public rules, error.
"""

from __future__ import annotations

from dmverify.lab.recordings.shipped import DATA

RECORDED = DATA / "faults_cuda.json"
"""Where it is."""

UNSEEN = {"delta-barrier-missing"}
"""Faults that the recorded run did not reject: in 100 runs no bit differed. The rule that names
them reads the machine code (``ordering``). It came after the run, which stays as it was written."""

RENAMED = {"ds-rounded-twice": "ds-through-bf16"}
"""Ids of the recording that the catalogue gives to another mutant, and what they are called now."""
