"""The three lines of its test suite (run by our tests, which name the file)."""

import os

import dmverify

test_conformance = dmverify.conformance_tests(
    os.environ["KERNEL"], cases=["lengths/n17@0", "constant-v/third@0"], in_process=True
)
