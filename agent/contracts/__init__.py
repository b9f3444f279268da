"""Python view of the emulator's C and C++ declarations, generated and committed together with them.

`python -m agent.contracts` writes the view. `--check` reports differences and exits with status 1. The
headers are the source; docs/contracts.md lists which file is derived from which. The product does not import
this package.
"""
