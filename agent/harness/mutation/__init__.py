"""Deliberately wrong answers, to test if a problem can tell them from right ones."""
