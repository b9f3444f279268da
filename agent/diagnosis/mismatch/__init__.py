"""Diagnosis of a wrong output: the wrong elements, and the wrong reference that it equals."""
