"""Advice on what to change first in a correct but slow kernel."""
