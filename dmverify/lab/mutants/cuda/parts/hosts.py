"""Faults of the host: the kernels are right, and driven wrongly."""

from __future__ import annotations

from dmverify.lab.mutants import cases as on
from dmverify.lab.mutants.cuda import hosts
from dmverify.lab.mutants.cuda.fault import CudaFault

ROWS = (
    CudaFault(
        "default-stream", "host", "host",
        "kernels run on the default stream instead of the caller's", "o",
        (), (on.GAUSSIAN,), host=hosts.default_stream,
    ),
    CudaFault(
        "strides-ignored", "host", "host",
        "tensors stored heads first are read as if tokens came first", "o",
        (), (on.STRIDED,), host=hosts.strides_ignored,
    ),
    CudaFault(
        "graph-stale-pointers", "host", "host",
        "a graph is replayed on the tensors of its capture", "o",
        (), (on.GAUSSIAN,), host=hosts.graph_stale_pointers,
    ),
    CudaFault(
        "last-call", "host", "host", "the previous call's outputs are returned", "o",
        (), (on.GAUSSIAN,), host=hosts.last_call,
    ),
    CudaFault(
        "statistics-of-last-call", "host", "host",
        "the backward reads the row sums of the previous call", "dq",
        (), (on.GAUSSIAN,), host=hosts.statistics_of_last_call,
    ),
    CudaFault(
        "softmax-scale-ignored", "host", "host",
        "the scale is 1 / sqrt(head_dim) whatever was asked", "lse",
        (), (on.FLAT_OFFSET,), host=hosts.softmax_scale_ignored,
    ),
    CudaFault(
        "causal-ignored", "host", "host", "the causal variant serves every call", "lse",
        (), (on.GAUSSIAN_FULL,), host=hosts.causal_ignored,
    ),
)  # fmt: skip
"""Faults of this part."""
