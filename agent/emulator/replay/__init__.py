"""Replay of a recorded process's device code without its host code.

`program.read` turns an untrusted record (torch_shim/recording.py) into trusted steps. `device_library` makes
a built extension loadable without running its host code. `player.py`, a standalone file, runs the steps in
a separate process.
"""
