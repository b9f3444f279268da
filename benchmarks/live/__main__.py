"""Fresh answers, judged: `python -m benchmarks.live begin|go|table FOLDER`.

FOLDER holds `box`, the mailbox, and `runs`. `begin` writes the first prompts and needs no GPU. `go` carries
every run on as far as answers are there, one process for each, each on one of this machine's GPUs, and ends
what is left when the limit comes: it can be carried on another time, on another machine. `table` is what
docs/live.md shows.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from agent.api import Run
from benchmarks.live import table

ROOT = Path(__file__).resolve().parents[2]
KERNELBENCH = tuple(f"kernelbench:{level}/{number}" for level in (1, 2) for number in (16, 41, 66, 91))
"""Every 25th problem of the first two levels, from where the rule of the runs before went on."""
END_S = 12.0
"""A run that is interrupted gets to write down how it ended."""
LOOK_S = 1.0


class Going(NamedTuple):
    """A run that is carried on."""

    name: str
    process: subprocess.Popen[bytes]


def begin(folder: Path, gpu: str) -> None:
    """Begins every run that the folder lacks."""
    begun = {Run.open(path).folder.info.settings.problem for path in runs_of(folder)}
    own = sorted((Path(__file__).parent / "references").glob("*.py"))
    for address in (*(str(path.relative_to(ROOT)) for path in own), *KERNELBENCH):
        if address not in begun:
            subprocess.run(
                [
                    sys.executable, "-m", "agent.cli", "run", address, "--executor", "cuda", "--gpu", gpu,
                    "--provider", f"mailbox:{folder / 'box'}", "--no-wait", "--search", "line",
                    "--rounds", "2", "--runs-dir", str(folder / "runs"), "--quiet",
                ],
                check=False,
            )  # fmt: skip


def go(folder: Path, terms: argparse.Namespace) -> None:
    """Carries all runs on, side by side, for at most `terms.limit` seconds."""
    began = time.monotonic()
    until = began + terms.limit
    gpus = visible()
    (folder / "logs").mkdir(exist_ok=True)
    waiting = [(path, gpus[number % len(gpus)]) for number, path in enumerate(runs_of(folder))]
    going: list[Going] = []
    while waiting or (any(one.process.poll() is None for one in going) and time.monotonic() < until - END_S):
        late = time.monotonic() - began >= terms.kernelbench_after
        for path, gpu in list(waiting):
            if late or not of_kernelbench(path):
                waiting.remove((path, gpu))
                going.append(Going(path.name, carried(path, folder, gpu, more(path, terms))))
        time.sleep(LOOK_S)
        if terms.first_looks and all(is_judged(Run.open(path), folder / "box") for path in runs_of(folder)):
            until = time.monotonic() + END_S
    left = [one for one in going if one.process.poll() is None]
    for one in left:
        one.process.send_signal(signal.SIGINT)
    for one in going:
        with contextlib.suppress(subprocess.TimeoutExpired):
            one.process.wait(max(until - time.monotonic(), 0.01))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(one.process.pid, signal.SIGKILL)
    print(
        f"{len(going) - len(left)} of {len(going)} ended by themselves, {len(left)} at the limit; GPUs {gpus}"
    )


def more(path: Path, terms: argparse.Namespace) -> list[str]:
    """Further options for one run."""
    left_out = any(part in path.name for part in terms.not_autotuned)
    return ["--baselines", "max-autotune"] if terms.max_autotune and not left_out else []


def of_kernelbench(path: Path) -> bool:
    return Run.open(path).folder.info.settings.problem.startswith("kernelbench:")


def is_judged(run: Run, box: Path) -> bool:
    """Whether every answer in the mailbox has its first verdict."""
    last = run.log.rounds[-1]
    if last.completion is None and last.prompt is not None:
        return not any(box.glob(f"{run.id}-{last.prompt.id[:8]}-*.answer.md"))
    return bool(last.evaluated or last.unjudged or last.rejected)


def carried(path: Path, folder: Path, gpu: str, more: list[str]) -> subprocess.Popen[bytes]:
    """A process, in a session of its own, that goes on with one run; what it says is in `logs`."""
    command = [
        sys.executable, "-m", "agent.cli", "run", "--resume", path.name, "--no-wait",
        "--runs-dir", str(folder / "runs"), *more,
    ]  # fmt: skip
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": gpu, "NO_COLOR": "1"}
    with (folder / "logs" / f"{path.name}.txt").open("ab") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
        )


def runs_of(folder: Path) -> list[Path]:
    """The folders of the runs, in the order in which they were begun."""
    return sorted(path.parent for path in (folder / "runs").glob("*/run.toml"))


def visible() -> list[str]:
    """Values of CUDA_VISIBLE_DEVICES, one for each GPU that may be used."""
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    if shown is not None:
        return [name for name in shown.split(",") if name] or [""]
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return [""]
    return [str(number) for number, _ in enumerate(listed.splitlines())] or [""]


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("what", choices=["begin", "go", "table"])
    asked.add_argument("folder", type=Path)
    asked.add_argument("--gpu", default="H100", help="GPU that the prompts of new runs are written for")
    asked.add_argument("--limit", type=float, default=300.0, help="seconds for `go`")
    asked.add_argument("--first-looks", action="store_true", help="leave confirming to another time")
    asked.add_argument("--max-autotune", action="store_true", help="also time against max-autotune")
    asked.add_argument(
        "--not-autotuned", nargs="*", default=[], metavar="PART", help="but for runs with this in their id"
    )
    asked.add_argument(
        "--kernelbench-after", type=float, default=0.0, help="seconds by which its runs begin later"
    )
    given = asked.parse_args()
    if given.what == "begin":
        begin(given.folder, given.gpu)
    if given.what == "go":
        go(given.folder, given)
    print(table.rendered([Run.open(path) for path in runs_of(given.folder)]))


if __name__ == "__main__":
    main()
