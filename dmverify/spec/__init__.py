"""The specification: numpy and python-flint only; no torch, no printing, no files."""
