"""Repeats the device code of a recorded process without its host code.

`program.read` turns a record that is not trusted (torch_shim/recording.py) into steps that are;
`device_library` makes a built extension loadable without running any of its host code; `player.py`, a
standalone file, runs the steps in a process of its own.
"""
