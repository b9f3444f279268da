"""`python -m agent.cli`, for an environment without the installed commands."""

from agent.cli import main

main()
