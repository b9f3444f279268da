"""Foreign ground: `python -m tests.foreign problems|answers|page`.

    problems --root CHECKOUT   KernelBench's levels 1 to 3, up to admission, into benchmarks/results/foreign/
    answers                    right answers by an outsider, judged, into benchmarks/results/foreign/
    page                       docs/foreign.md from these documents; a test compares

`--resume` leaves out what the document has of the same text, `--only` names what to run. Documents are
written after every result. Exits 1 where an answer is not verified or a problem ends in a fault of ours.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from agent.errors import AgentError

from . import answers, documents, page, problems
from .documents import Entry


def main(arguments: list[str] | None = None) -> int:
    given = _options().parse_args(arguments)
    if given.what == "page":
        page.PAGE.write_text(page.render(), encoding="utf-8")
        return 0
    try:
        if given.what == "problem":
            sys.stdout.write(json.dumps(problems.examined(given.address, given.root)) + "\n")
            return 0
        return _problems(given) if given.what == "problems" else _answers(given)
    except AgentError as fault:
        sys.stderr.write(f"{fault}\n")
        return fault.exit_code


def _problems(given: argparse.Namespace) -> int:
    out: Path = given.out or documents.RECORDS / "problems.json"
    every = {
        problems.identity(address): address for address in problems.addresses(given.root, tuple(given.levels))
    }
    kept = documents.read(out)
    done = kept if given.resume else {}
    wanted = [
        address
        for name, address in every.items()
        if problems.chosen(address, given.only)
        and done.get(name, {}).get("digest") != problems.digest(address, given.root)
    ]
    entries = problems.examined_all(wanted, given.root, given.jobs, given.limit)
    judged = _kept(out, kept, entries, lambda entry: str(entry["outcome"]))
    return 1 if any(entry["outcome"] == "fault" for entry in judged) else 0


def _answers(given: argparse.Namespace) -> int:
    out: Path = given.out or answers.record(given.executor)
    every = answers.known(given.answers)
    present = {answer.name for answer in every}
    if unknown := set(given.only) - present:
        sys.stderr.write(f"no answer is named {' or '.join(sorted(unknown))}; see {given.answers}\n")
        return 2
    kept = {name: entry for name, entry in documents.read(out).items() if name in present}
    wanted = [
        answer
        for answer in every
        if (not given.only or answer.name in given.only)
        and not (given.resume and kept.get(answer.name, {}).get("digest") == answers.digest(answer))
    ]
    entries = answers.judged_all(wanted, given.executor, given.jobs)
    _kept(out, kept, entries, lambda entry: str(entry["status"]))
    missing = [name for name in sorted(present) if kept.get(name, {}).get("status") != "verified"]
    sys.stdout.write(f"{len(present) - len(missing)} of {len(present)} verified\n")
    return 1 if missing or not present else 0


def _kept(
    out: Path, kept: dict[str, Entry], entries: Iterable[Entry], verdict: Callable[[Entry], str]
) -> list[Entry]:
    """The new entries, each written and told as soon as it is there."""
    new = []
    for entry in entries:
        new.append(entry)
        kept[entry["id"]] = entry
        documents.write(out, kept.values())
        said = entry.get("reason") or entry.get("finding") or ""
        sys.stdout.write(f"{entry['seconds']:6.1f} s  {verdict(entry):13} {entry['id']}  {said[:160]}\n")
        sys.stdout.flush()
    return new


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog="python -m tests.foreign", description=(__doc__ or "").split("\n")[0]
    )
    what = options.add_subparsers(dest="what", required=True)
    one = what.add_parser("problem", help="one problem, as JSON, in this process")
    one.add_argument("address")
    many = what.add_parser("problems", help="every problem of a checkout")
    many.add_argument("--levels", type=int, nargs="+", default=list(problems.LEVELS))
    many.add_argument("--limit", type=float, default=problems.LIMIT_S, metavar="SECONDS", help="of a problem")
    for each in (one, many):
        each.add_argument("--root", type=Path, required=True, help="a local checkout of KernelBench")
    right = what.add_parser("answers", help="every right answer")
    right.add_argument("--executor", choices=("emulator", "cuda"), default="emulator")
    right.add_argument("--answers", type=Path, default=answers.ANSWERS, help=argparse.SUPPRESS)
    for each in (many, right):
        each.add_argument("--jobs", type=int, default=2)
        each.add_argument("--resume", action="store_true", help="only what the document does not have")
        each.add_argument("--only", nargs="+", default=[], metavar="NAME")
        each.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    what.add_parser("page", help="render docs/foreign.md")
    return options


if __name__ == "__main__":
    sys.exit(main())
