"""Checks of a problem before any candidate is judged, and robustness probes of verified candidates."""
