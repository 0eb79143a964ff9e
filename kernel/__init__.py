"""The bundled Hopper kernel: FP8 attention, forward and backward. It imports nothing of ours."""
