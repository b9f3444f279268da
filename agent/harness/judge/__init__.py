"""Decides: one candidate in, one evaluation out, through trials and what a new best needs besides."""
