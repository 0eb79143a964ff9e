"""The acceptance of a kernel build on a Hopper GPU: ``dmverify lab acceptance``.

It leaves a log for each stage, and the recordings that ``recordings/data`` ships.
"""
