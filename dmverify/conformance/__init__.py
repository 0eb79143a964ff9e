"""Drives kernels through cases and judges what they return against the specification."""
