"""Timing of a verified candidate by clocks that it cannot reach."""
