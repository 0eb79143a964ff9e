"""Seeded faults of the CUDA kernel: source edits, wrong hosts, and what notices them."""

from dmverify.lab.mutants.cuda.fault import CudaFault
from dmverify.lab.mutants.cuda.table import CUDA_FAULTS, get_cuda_fault

__all__ = ["CUDA_FAULTS", "CudaFault", "get_cuda_fault"]
