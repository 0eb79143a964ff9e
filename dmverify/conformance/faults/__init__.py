"""Seeded faults: the emulator wrong in one place, and which check or public rule notices."""
