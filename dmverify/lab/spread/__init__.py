"""Runs in parts, tried at length: killed workers, wall time, a thousand workers simulated."""
