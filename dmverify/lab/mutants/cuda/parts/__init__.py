"""The parts of the table of CUDA faults."""
