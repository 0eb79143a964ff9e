"""Seeded faults of the CUDA kernel: source edits, wrong hosts, and what notices them."""

from dmverify.conformance.faults.cuda.fault import CudaFault
from dmverify.conformance.faults.cuda.table import CUDA_FAULTS, get_cuda_fault

__all__ = ["CUDA_FAULTS", "CudaFault", "get_cuda_fault"]
