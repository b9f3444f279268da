"""What a verdict costs on a GPU: `python -m benchmarks.verdict [--times 2] [--out DIR]`.

Judges a known kernel of about 1.3 ms by `agent eval`, another text each time, and reads off its progress what
the steps took: building; verifying and timing; what the acceptance of a new best costs beyond that, without
the builds in it. The first verdict on a machine prepares what later ones share, and times torch.compile.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.gpu import planted, verify

TURNS = 500
TIMED = "watching what runs on the GPU"
NEW_BEST = "new best: "
BUILDING = "building"
STAMP = re.compile(r"^\s*\S+(?: s)?\s\s")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--times", type=int, default=2)
    options.add_argument("--out", type=Path, default=verify.ROOT / "docs" / "gpu")
    options.add_argument("--commit", default=None, help="the commit, where this folder is no checkout")
    given = options.parse_args()
    verdicts = []
    for number in range(given.times):
        found = judged(planted.SOURCE.replace("TURNS", str(TURNS + number)))
        verdicts.append(found)
        sys.stdout.write(f"{found['status']}: {words(found)}\n")
        sys.stdout.flush()
    now = datetime.now(UTC)
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / f"verdict-{now:%Y%m%d-%H%M%S}.json"
    document = {**verify.circumstances(given.commit), "verdicts": verdicts}
    path.write_text(json.dumps(document, indent=1) + "\n")
    sys.stdout.write(f"{path}\n")
    return 0 if all(found["status"] == "verified" for found in verdicts) else 1


def judged(source: str) -> dict[str, Any]:
    """The verdict on one candidate, its seconds by part, and every line of progress with when it came."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as said:
        candidate = Path(folder) / "known.py"
        candidate.write_text(source)
        reference = planted.REFERENCE.relative_to(verify.ROOT)
        command = ["eval", str(reference), str(candidate), "--executor", "cuda", "--json"]
        started = time.monotonic()
        # A pipe that nobody reads until the progress ends may be full before.
        process = subprocess.Popen(
            [sys.executable, "-m", "agent.cli", *command],
            stdout=said, stderr=subprocess.PIPE, text=True, cwd=verify.ROOT,
        )  # fmt: skip
        lines = [(time.monotonic() - started, STAMP.sub("", line).strip()) for line in process.stderr or ()]
        process.wait()
        said.seek(0)
        answer = said.read()
    lines.append((time.monotonic() - started, "ended"))
    return {
        "status": json.loads(answer)["status"] if answer else None,
        "seconds": parts(lines),
        "progress": [[round(when, 2), what] for when, what in lines],
    }


def parts(lines: list[tuple[float, str]]) -> dict[str, float | None]:
    """Seconds of building, of what follows to the end of timing, and of the acceptance less its builds.

    None for what an evaluation that ended early did not come to.
    """
    ends = [when for when, _ in lines[1:]]
    builds = {"": 0.0, NEW_BEST: 0.0}
    for (began, what), ended in zip(lines, ends, strict=False):
        if what.endswith(BUILDING):
            builds[what.removesuffix(BUILDING)] += ended - began
    at = {what: when for when, what in reversed(lines)}
    timed = at.get(TIMED)
    return {
        "build": builds[""],
        "to_the_end_of_timing": None if timed is None else timed - at[BUILDING] - builds[""],
        "acceptance": None if timed is None else lines[-1][0] - timed - builds[NEW_BEST],
        "builds_in_it": builds[NEW_BEST],
        "all": lines[-1][0],
    }


def words(found: dict[str, Any]) -> str:
    """The parts as one line."""
    shown = {name: "-" if s is None else f"{s:.1f} s" for name, s in found["seconds"].items()}
    return (
        f"built in {shown['build']}, to the end of timing {shown['to_the_end_of_timing']}, accepted in "
        f"{shown['acceptance']} beside {shown['builds_in_it']} of builds; {shown['all']} in all"
    )


if __name__ == "__main__":
    sys.exit(main())
