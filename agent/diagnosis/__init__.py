"""Diagnosis of wrong, slow or failing candidates from the recorded evidence."""
