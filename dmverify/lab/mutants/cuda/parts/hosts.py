"""Faults of the host: the kernels are right, and driven wrongly."""

from __future__ import annotations

from dmverify.lab.mutants.cuda import hosts
from dmverify.lab.mutants.cuda.mutation import CudaMutation

MUTATIONS = {
    "default-stream": CudaMutation(host=hosts.default_stream),
    "strides-ignored": CudaMutation(host=hosts.strides_ignored),
    "graph-stale-pointers": CudaMutation(host=hosts.graph_stale_pointers),
    "last-call": CudaMutation(host=hosts.last_call),
    "statistics-of-last-call": CudaMutation(host=hosts.statistics_of_last_call),
    "softmax-scale-ignored": CudaMutation(host=hosts.softmax_scale_ignored),
    "causal-ignored": CudaMutation(host=hosts.causal_ignored),
}
"""By the mutant's id."""
