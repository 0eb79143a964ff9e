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

Both were changed since, for what the code says. A slot of F is free once both warpgroups have
released it, and the rows of the second, which did so last, were padding: in 100 runs nothing that
is read was overwritten. Now both release it, and read later. G without the wait for its records
could end before their copies had arrived, and gave no answer within 30 s: that is a kill too, but
one that ``run`` names. Now it waits after use.
"""
