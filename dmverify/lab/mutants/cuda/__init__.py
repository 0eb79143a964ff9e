"""Mutants of the CUDA kernel: source edits, wrong hosts, and what notices them."""

from dmverify.lab.mutants.cuda.mutation import CudaMutation
from dmverify.lab.mutants.cuda.table import MUTATIONS

__all__ = ["MUTATIONS", "CudaMutation"]
