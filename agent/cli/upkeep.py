"""Implementation of `agent runs --verify` and `--prune`."""

from collections.abc import Sequence

from rich.text import Text

from agent import store
from agent.cli import console
from agent.records import SCHEMA_VERSION
from agent.store import upkeep


def verify(runs: Sequence[store.Run], json: bool) -> int:
    """Check the runs against their hashes and print each fault. Return the exit code, 1 if any fault."""
    faults: list[upkeep.Fault] = []
    with console.live("verifying") as live:
        for number, run in enumerate(runs):
            live.update("verifying", number, len(runs))
            faults += upkeep.verify(run)
    damaged = {fault.run for fault in faults}
    if json:
        console.emit_json({"schema_version": SCHEMA_VERSION, "runs": len(runs), "faults": faults})
    else:
        for fault in faults:
            console.show(Text(console.line(str(fault)), style="red"))
        console.show(Text(f"{_count(len(runs), 'run')} verified, {len(damaged)} damaged"))
    return 1 if faults else 0


def prune(runs: Sequence[store.Run], json: bool, *, dry: bool) -> int:
    """Delete the runs, print the freed space and return the exit code. With `dry`, delete nothing.

    Recorded and running runs are kept and listed with the reason.
    """
    done: list[upkeep.Deleted] = []
    for run in runs:
        done.append(upkeep.delete(run, dry=dry))
        if not json:
            console.show(Text(_what_became(done[-1], dry)))
    gone = [one for one in done if one.kept is None]
    freed = sum(one.bytes for one in gone)
    if json:
        console.emit_json({"schema_version": SCHEMA_VERSION, "dry_run": dry, "runs": done, "bytes": freed})
        return 0
    said = "would be deleted" if dry else "deleted"
    console.show(Text(f"{_count(len(gone), 'run')} {said}, {_size(freed)}"))
    return 0


def _what_became(one: upkeep.Deleted, dry: bool) -> str:
    word = f"kept, {one.kept}" if one.kept else f"{'would free' if dry else 'freed'} {_size(one.bytes)}"
    return f"{console.line(one.run)}  {console.line(word)}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _size(size: int) -> str:
    return f"{size / 2**20:,.1f} MB" if size >= 2**20 else f"{size / 2**10:,.1f} kB"
