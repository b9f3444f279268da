"""Entry point of the commands `agent` and `kernelwright`."""

import sys


def main() -> None:
    """Run the command line and exit with the command's exit code."""
    try:
        from agent.cli.app import app

        # Characters that the terminal cannot encode are replaced instead of raising an error.
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")
        app(prog_name="agent")
    except KeyboardInterrupt:
        sys.exit(130)
