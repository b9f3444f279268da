"""Code of the candidate's process, copied to the candidate's folder, so that no file here imports `agent`."""
