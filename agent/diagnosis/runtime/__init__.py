"""Diagnosis of candidates that raised, hung or made launches that no GPU accepts."""
