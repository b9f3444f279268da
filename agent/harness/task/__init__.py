"""Definition of one evaluation: the job, its draws and time limits, and how it ends."""
