"""Measurements of speed, each a function that returns rows."""
