"""The kill matrix of the CUDA kernel that ships, as ``dmverify faults --kernel bundled`` said it.

One JSON document with the producer (kernel source, compiler, device, driver) and a row for every
fault: verdict, checks with and without the comparison of bits, public rules, error.
"""

from __future__ import annotations

from dmverify.lab.recordings.shipped import DATA

RECORDED = DATA / "faults_cuda.json"
"""Where it is."""

UNSEEN = {"released-before-read", "full-wait-missing-key"}
"""Faults that the recorded run did not reject by the check that names them.

In 100 runs no copy into the slot that F gave back too early had arrived before the late read of its
scale, since F has four warpgroups at D = 64. Without the wait for its records G ended in no answer
within 30 s: that is a kill too, but one that ``run`` names.
"""
