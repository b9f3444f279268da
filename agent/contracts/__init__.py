"""Python's view of the C and C++ declarations of the emulator, generated and committed together with them.

`python -m agent.contracts` writes it, `--check` says what differs and ends with 1. The sources are
the headers; docs/contracts.md lists what is derived from what. Nothing of the product imports this package.
"""
