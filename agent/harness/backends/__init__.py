"""Executor-specific parts of a trial: builds, worker processes, folders and the sharing of a GPU."""
