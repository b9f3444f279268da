"""How long pages take: `PYTHONPATH=tests python -m benchmarks.viewer [ATTEMPTS] [RUNS]`.

A run of 200 attempts and a list of 10,000 runs, as the server answers and, where there is a Chromium, as a
browser has them loaded (from the click to the load event, then until the attempt is shown). Medians of five;
the first answer is said apart, since the transcript is read once.
"""

import shutil
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from viewer import runs
from viewer.browser import Browser, programs, served

from agent import store
from agent.viewer import export, pages


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def report(what: str, work: Callable[[], object]) -> None:
    first, others = seconds(work), [seconds(work) for _ in range(5)]
    print(f"{what:<44} {statistics.median(others):.3f} s  (first {first:.3f}, slowest {max(others):.3f})")


def fetch(address: str) -> Callable[[], object]:
    def work() -> object:
        with urllib.request.urlopen(address) as answer:
            return answer.read()

    return work


def loaded(browser: Browser, address: str) -> Callable[[], object]:
    def work() -> None:
        browser.driver.get(address)
        browser.until(lambda: browser.count(".code .row, .runs .run") > 0, "the page is there")

    return work


def many(folder: Path, count: int) -> None:
    """Copies of one run, without the blobs, which no list opens."""
    run = runs.measured_run(folder)
    for number in range(count - 1):
        copy = folder / f"20260101-000000-copy-{number:05}"
        copy.mkdir()
        for name in ("run.toml", "events.jsonl"):
            shutil.copy2(run.path / name, copy / name)


def main(attempts: int = 200, count: int = 10_000) -> None:
    found = programs()
    with tempfile.TemporaryDirectory() as name:
        one, all_of_them = Path(name, "one"), Path(name, "many")
        run = runs.long_run(one, attempts)
        many(all_of_them, count)
        store.list_runs(all_of_them)
        browser = Browser(*found) if found else None
        pages.prepare()
        with served(one) as site, served(all_of_them) as listed:
            page = f"{site}/run/{run.id}"
            report(f"server: a run of {attempts} attempts", fetch(page))
            report("server: one more attempt", fetch(f"{page}/part/attempt-{attempts // 2}"))
            report(f"server: {count} runs", fetch(f"{listed}/"))
            report(f"server: {count} runs, searched", fetch(f"{listed}/?q=copy-0123"))
            if browser:
                report(f"browser: a run of {attempts} attempts", loaded(browser, page))
                report(f"browser: {count} runs", loaded(browser, f"{listed}/"))
                browser.close()
        file = Path(name, "run.html")
        report(f"export of {attempts} attempts", lambda: export.write(run, file))
        print(f"{'exported file':<44} {file.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
