"""The experiments, one file each: they reproduce and extend published figures."""
