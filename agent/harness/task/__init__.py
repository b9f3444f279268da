"""What one evaluation is: the job, its draws and time limits, and how it ends."""
