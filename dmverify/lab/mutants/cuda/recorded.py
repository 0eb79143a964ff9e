"""The kill matrix of the CUDA kernel that ships, as ``dmverify faults --kernel bundled`` said it.

One JSON document with the producer (kernel source, compiler, device, driver) and a row for every
fault: verdict, checks with and without the comparison of bits, public rules, error.

A row with a ``source`` of its own was run later, on a text whose default builds have the same
machine code (``conformance/kernels/certificate.json``): two faults of waiting, which the first run
had not rejected by the check that names them, were made real ones. A slot of F is free once both
warpgroups have released it, and the rows of the second, which did so last, were padding. G without
the wait for its records could end before their copies had arrived, and gave no answer within 30 s.
Four other faults of waiting were run again beside them, with the same rows.
"""

from __future__ import annotations

from dmverify.lab.recordings.shipped import DATA

RECORDED = DATA / "faults_cuda.json"
"""Where it is."""
