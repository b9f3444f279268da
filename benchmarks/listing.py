"""How long lists of many runs and a run of many attempts take: `python benchmarks/listing.py [RUNS]`.

Copies of one small run stand for thousands. The first list reads every transcript and makes the index, the
next ones use it; medians of nine in this process, and of five whole `agent` commands. Where other work keeps
the machine busy, the time of a processor says more.
"""

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agent import store
from agent.records import Attempt, Evaluated

RECORDED = Path(__file__).parent.parent / "runs" / "recorded" / "group_norm"
ATTEMPTS = 200


def timed(work: Callable[[], object], times: int) -> str:
    """Median wall time and median processor time, of this process and those it waited for."""
    wall, processor = [], []
    for _ in range(times):
        began, used = time.perf_counter(), _processor()
        work()
        wall.append(time.perf_counter() - began)
        processor.append(_processor() - used)
    return f"{statistics.median(wall):.3f} s, {statistics.median(processor):.3f} s of a processor"


def _processor() -> float:
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def command(*arguments: str) -> Callable[[], object]:
    whole = [sys.executable, "-m", "agent.cli", *arguments]
    return lambda: subprocess.run(whole, check=True, capture_output=True)


def many_runs(folder: Path, count: int) -> None:
    """Runs a minute apart that share nothing but their text; without the blobs, which no list opens."""
    events = (RECORDED / "events.jsonl").read_bytes()
    manifest = (RECORDED / "run.toml").read_text(encoding="utf-8").splitlines()
    begun = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(count):
        when = begun + timedelta(minutes=number)
        run = folder / f"{when:%Y%m%d-%H%M%S}-group_norm-{number:04x}"
        run.mkdir()
        (run / "events.jsonl").write_bytes(events)
        told = {"id": run.name, "created": when.isoformat()}
        lines = [
            f'{name} = "{told[name]}"' if (name := line.split(" ")[0]) in told else line for line in manifest
        ]
        (run / "run.toml").write_text("\n".join(lines), encoding="utf-8")


def long_run(folder: Path) -> store.Run:
    """The recorded run with its attempts over and over, each another source."""
    recorded = store.Run(RECORDED, "recorded/group_norm")
    run = store.create(folder, recorded.info.settings)
    log = recorded.read()
    judged = [event for event in log.events if isinstance(event, Evaluated)]
    with run.writer() as writer:
        for event in log.events[:3]:
            writer.append(event)
        parent: str | None = None
        for number in range(1, ATTEMPTS + 1):
            like = judged[number % len(judged)].attempt
            source = f"{like.candidate.source}\n# attempt {number}\n"
            candidate = like.candidate.model_copy(update={"source": source, "parent": parent})
            parent = candidate.id
            attempt = Attempt(number=number, candidate=candidate, evaluation=like.evaluation)
            writer.append(Evaluated(round=number, attempt=attempt, seconds=1.0))
    return run


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "runs"
        folder.mkdir()
        many_runs(folder, count)
        time.sleep(2.5)  # younger files are not believed to be settled
        print(f"{count} runs")
        print("  read and indexed    ", timed(lambda: store.list_runs(folder), 1))
        print("  listed by the index ", timed(lambda: store.list_runs(folder), 9))
        print("  agent runs          ", timed(command("runs", "--runs-dir", str(folder)), 5))
        print("  agent runs --json   ", timed(command("runs", "--json", "--runs-dir", str(folder)), 5))
        run = long_run(Path(name) / "long")
        print(f"a run of {ATTEMPTS} attempts")
        print("  agent show          ", timed(command("show", str(run.path)), 5))
        print("  agent show --json   ", timed(command("show", str(run.path), "--json"), 5))


if __name__ == "__main__":
    main()
