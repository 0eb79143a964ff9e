"""Exact specification and conformance tests for block-scaled FP8 attention on Hopper."""
