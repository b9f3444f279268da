"""Process of the candidate: every file here is copied beside it, and none imports `agent`."""
