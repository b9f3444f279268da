"""`make demo`: find a verified kernel in one round and replay a recorded repair, without an endpoint."""

import sys
import time
from pathlib import Path

from agent import config
from agent.cli.app import app

STEPS = (
    (
        "The catalogue answers level1/gelu with a hand-written kernel; it is built\n"
        "and judged here, on the CPU.",
        ("run", "level1/gelu", "--provider", "catalogue", "--executor", "emulator"),
    ),
    (
        "Replayed are four attempts at level1/group_norm, recorded from a scripted\n"
        "provider: a build error, its mend without a model call, a wrong kernel and a\n"
        "right one. Each is really built and judged afresh, and every verdict has to\n"
        "come out as it was recorded.",
        ("replay", "recorded/group_norm", "--executor", "emulator"),
    ),
)
NEXT = """\
What is where
  {runs}/<id>/events.jsonl  the transcript of the first step (agent runs)
  {runs}/<id>/best.py       its kernel: a self-contained file, needs only torch
  agent show recorded/group_norm --round 2  a round of that repair in full

Three commands to try next, after  . {activate}
  agent show recorded/group_norm
  agent eval level1/group_norm recorded/group_norm:3 --executor emulator
  OPENAI_API_KEY=... agent run level1/rms_norm --model NAME
      asks a model; --base-url http://localhost:8000/v1 asks one on this machine
"""


def main() -> int:
    started = time.monotonic()
    for words, arguments in STEPS:
        print(f"\n{words}\n$ agent {' '.join(arguments)}", flush=True)
        code = _ended(arguments)
        if code:
            print(f"this step exited with {code}: the demo has failed")
            return 1
    settings = config.load({}, offline=True).settings
    activate = Path(sys.executable).with_name("activate")
    print(f"\nBoth steps came out as they should, in {time.monotonic() - started:.0f} s.\n")
    print(NEXT.format(runs=settings.runs_dir, activate=activate))
    return 0


def _ended(arguments: tuple[str, ...]) -> int:
    """Run a command in this process and return its exit code. The second command reuses loaded state."""
    try:
        app(list(arguments), prog_name="agent")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
