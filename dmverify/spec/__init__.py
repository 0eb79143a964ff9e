"""The specification: numpy, mpmath and python-flint only; no torch, no printing, no files."""
