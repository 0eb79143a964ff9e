"""Probes that record what Hopper instructions do, on a Hopper GPU.

`dmverify lab probe OUT` compiles the CUDA C++ texts of this package with NVRTC,
runs them on adversarial and random operands and over all 2^32 float32 inputs, and writes the
recordings that `recordings` reads. No probe knows the model it will judge.
"""
