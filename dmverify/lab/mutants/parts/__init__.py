"""The faults, a module for each part of the kernel; each has a table ``ROWS``."""
