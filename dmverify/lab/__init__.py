"""The laboratory: evidence about this project itself.

Seeded faults, planted errors, what an H200 answered, kernels that others ship, the acceptance of
the bundled kernel, its speed. Each is a list of kernels, cases and checks put through the judge of
``dmverify.conformance``, which never imports anything from here.
"""
