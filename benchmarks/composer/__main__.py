"""The composer on a local checkout of KernelBench: `python -m benchmarks.composer compose|judge|time|page`.

    compose --root CHECKOUT --work FOLDER                     the files, into FOLDER
    judge   ... [--executor emulator|cuda] [--quick]          what the judge says of each
    time    ... [--max-autotune] [--seconds N]                on a GPU, against the best of torch's; what
            kernels took goes into FOLDER
    page                                                      docs/composer-kernelbench.md and its plot

Every fifth problem of levels 1 and 2 and all of level 3, or those that `--only` names. Each result is written
to one document as soon as it is there; `--resume` leaves out what it has of the same reference and the same
composed file. Only figures and our own words go into it, no text of the checkout.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent import config
from benchmarks import storage
from benchmarks.composer import cases, judging, page, waves
from tests.foreign import documents
from tests.gpu import verify

DOCUMENTS = {
    "gemm-conv": storage.COMPOSER / "kernelbench.json",
    "none": storage.COMPOSER / "none.json",
}
"""By `--library-ops`."""


def main() -> int:
    given = _options().parse_args()
    if given.what == "page":
        page.write(*(documents.read(path) for path in DOCUMENTS.values()))
        return 0
    begun = time.monotonic()
    book = Book(given.out or DOCUMENTS[given.library_ops], given.commit)
    where = (given.root.resolve(), given.work.resolve())
    chosen = cases.chosen(*where, given.only, given.arch, given.library_ops)
    if given.what == "judge":
        judge = Judging(book, given.executor, given.quick, given.resume)
        for answer in documents.at_once(judge, chosen, given.jobs):
            book.keep(answer, "composed")
            if given.executor in answer:
                book.keep(answer, given.executor)
        return 0
    for answer in documents.at_once(_composing, chosen, given.jobs):
        book.keep(answer, "composed")
    if given.what == "time":
        there = [case for case in chosen if case.file.is_file()]
        left = [case for case in there if not (given.resume and book.has(case, "times", given.max_autotune))]
        until = begun + given.seconds
        cache = config.load({}, offline=True).settings.cache_dir
        for answer in waves.timed(left, cache, given.jobs, given.max_autotune, until):
            about = {name: answer.pop(name) for name in ("id", "digest", "code", "text")}
            places = given.work / f"{about['id'].replace('/', '-')}.kernels.json"
            places.write_text(json.dumps(answer.pop("kernels", {}), indent=1), encoding="utf-8")
            book.keep(about | {"times": answer | book.circumstances()}, "times")
    return 0


def _composing(case: cases.Case) -> dict[str, Any]:
    said = cases.composed(case)  # before it is asked what the file's text is
    return case.about() | {"composed": said}


@dataclass(frozen=True)
class Judging:
    """Of one problem after the other: a verdict is there as soon as it can be, whatever is still composed."""

    book: "Book"
    where: judging.Where
    quick: bool
    resume: bool

    def __call__(self, case: cases.Case) -> dict[str, Any]:
        answer = _composing(case)
        if not case.file.is_file() or (self.resume and self.book.has(case, self.where)):
            return answer
        return answer | {self.where: judging.judged(case, self.where, self.quick)}


class Book:
    """The document: an entry for each problem, whose parts belong to one reference and one composed file."""

    def __init__(self, path: Path, commit: str | None) -> None:
        self._path, self._commit = path, commit
        self._entries = documents.read(path)

    def keep(self, answer: dict[str, Any], part: str) -> None:
        """Puts one part of an entry there; parts of another text of the reference are dropped."""
        known = self._entries.get(answer["id"], {})
        if known.get("digest") != answer["digest"]:
            known = {}
        kept = {"id": answer["id"], "digest": answer["digest"]}
        value = answer[part]
        made = {name: answer[name] for name in ("code", "text")}
        self._entries[answer["id"]] = known | kept | {part: made | {"said": value}}
        documents.write(self._path, self._entries.values())
        if part != "composed" or value:
            sys.stdout.write(f"{answer['id']:12} {part:9} {_words(value)}\n")
            sys.stdout.flush()

    def has(self, case: cases.Case, part: str, tuned: bool = False) -> bool:
        """Whether that part is there for this reference and this composed file; `tuned`: with max-autotune.

        What could not be judged is not there.
        """
        known = self._entries.get(case.id, {})
        own = known.get(part, {})
        if known.get("digest") != case.digest or own.get("text") != case.text:
            return False
        said = own["said"] if isinstance(own["said"], dict) else {}
        named = {**said.get("times", {}), **said.get("notes", {})}
        return said.get("status") != "fault" and (not tuned or "max-autotune" in named)

    def circumstances(self) -> dict[str, Any]:
        if not hasattr(self, "_circumstances"):
            self._circumstances = verify.circumstances(self._commit)
        return {"date": self._circumstances["date"], **self._circumstances["machine"]}


def _words(value: Any) -> str:
    if isinstance(value, str):
        return value[:200]
    if "times" in value:
        times = value["times"]
        rivals = [ms for name, ms in times.items() if name != "composed"]
        ratio = f"{min(rivals) / times['composed']:.2f}x" if "composed" in times else "-"
        return f"{ratio} {times} error {value['error']} {value['notes'] or ''}"
    return " ".join(str(value.get(name, "")) for name in ("status", "failed", "seconds", "finding"))[:300]


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog="python -m benchmarks.composer", description=(__doc__ or "").split("\n")[0]
    )
    what = options.add_subparsers(dest="what", required=True)
    what.add_parser("page", help="render the page and its plot")
    parts: Iterable[tuple[str, str]] = (
        ("compose", "the files alone"), ("judge", "verdicts"), ("time", "times on a GPU"),
    )  # fmt: skip
    for name, help_text in parts:
        one = what.add_parser(name, help=help_text)
        one.add_argument("--root", type=Path, required=True, help="a local checkout of KernelBench")
        one.add_argument("--work", type=Path, required=True, help="keeps the composed files")
        one.add_argument("--only", nargs="+", default=[], metavar="NAME")
        one.add_argument("--jobs", type=int, default=2, help="side by side")
        one.add_argument("--resume", action="store_true")
        one.add_argument("--library-ops", choices=tuple(DOCUMENTS), default="gemm-conv")
        one.add_argument("--out", type=Path, help="the document; that of --library-ops by default")
        one.add_argument("--arch", help="compose for GPUs of it, with the shipped products: 90a")
        one.add_argument("--commit", default=None, help="the commit, where this folder is no checkout")
        if name == "judge":
            one.add_argument("--executor", choices=("emulator", "cuda"), default="emulator")
            one.add_argument("--quick", action="store_true")
        if name == "time":
            one.add_argument("--max-autotune", action="store_true")
            one.add_argument("--seconds", type=float, default=3600.0, help="after which no wave is begun")
    return options


if __name__ == "__main__":
    sys.exit(main())
