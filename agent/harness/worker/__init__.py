"""The process of the candidate: every file here is copied beside it; nothing of `agent` is imported."""
