"""The commands `agent` and `kernelwright`."""

import sys


def main() -> None:
    """Runs the command line and exits with the code that the command ended with."""
    try:
        from agent.cli.app import app

        # A terminal that cannot show a character gets a replacement, not a traceback.
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")
        app(prog_name="agent")
    except KeyboardInterrupt:
        sys.exit(130)
