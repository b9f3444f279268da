"""The pages in a real browser: moving about, filtering, links to a line, a run that goes on, the file."""

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys
from viewer import runs
from viewer.browser import Browser, served

from agent import store
from agent.records import RunFinished
from agent.store import Run
from agent.viewer import export

SHOTS = (1280, 420)


def _lists(browser: Browser, runs: int) -> bool:
    return browser.count(".runs .run") == runs


def _shows(browser: Browser, selected: str) -> bool:
    return browser.selected() == selected


SHIPPED = len(store.recorded_runs())
ALL = SHIPPED + 2
"""With those of `site`."""


@pytest.fixture
def site(measured: Run) -> Iterator[str]:
    runs.write(measured.path.parent, iter([runs.STARTED]), problem_name="level2/mixer", provider="catalogue")
    with served(measured.path.parent) as address:
        yield address


def test_the_list_is_searched_filtered_and_opened_by_keys(browser: Browser, site: str, measured: Run) -> None:
    browser.open(site + "/")
    assert browser.count(".runs .run") == ALL
    assert "level1/softmax 1 1.37×" in " ".join(browser.texts(".speedups tbody tr")).replace("\t", " ")
    browser.press("/")
    browser.press("mixer")
    browser.until(lambda: browser.count(".runs .run") == 1, "the search leaves one run")
    assert browser.run("return location.search") == "?q=mixer"
    browser.press(Keys.BACKSPACE * 5)
    browser.until(lambda: browser.count(".runs .run") == ALL, "an empty search shows all")
    for name, value, left in (
        ("problem", "level1/softmax", 1), ("problem", "", ALL),
        ("status", "recorded", SHIPPED), ("status", "", ALL), ("provider", "catalogue", 1),
        ("provider", "", ALL), ("status", "verified", ALL - 1), ("status", "", ALL),
    ):  # fmt: skip
        script = (
            "const s = document.querySelector(`[name=${arguments[0]}]`); s.value = arguments[1];"
            "s.dispatchEvent(new Event('input', {bubbles: true}))"
        )
        browser.run(script, name, value)
        browser.until(partial(_lists, browser, left), f"{name} {value!r}")
    browser.run("document.activeElement.blur()")
    browser.press("j")
    browser.press("j")
    browser.press(Keys.ENTER)
    browser.until(lambda: browser.count("#steps a") == 8, "the second run opens")
    assert measured.id in browser.driver.current_url
    browser.press("u")
    browser.until(lambda: browser.count(".runs .run") == ALL, "u leads back")
    assert browser.complaints() == []


def test_a_run_is_read_by_keys(browser: Browser, site: str, measured: Run) -> None:
    browser.open(f"{site}/run/{measured.id}")
    assert browser.selected() == "attempt-7 source"
    assert browser.count("#details > article") == 1
    browser.press("k")
    browser.until(lambda: browser.selected() == "attempt-6 source", "k goes back one")
    for key, panel in (("d", "diff"), ("p", "prompt"), ("a", "answer"), ("e", "evidence"), ("s", "source")):
        browser.press(key)
        browser.until(partial(_shows, browser, f"attempt-6 {panel}"), key)
    browser.press("d")
    browser.press("k")
    browser.until(lambda: browser.selected() == "attempt-5 diff", "the panel stays from step to step")
    for _ in range(8):
        browser.press("k")
    browser.until(lambda: browser.selected() == "attempt-1 source", "a first attempt has no diff")
    browser.press("j")
    browser.until(lambda: browser.selected() == "attempt-2 diff", "the mend comes next")
    assert browser.count("#attempt-2 [role=tab]") == 3
    browser.press("j")
    browser.until(lambda: browser.selected() == "round-2 answer", "then the round without code")
    browser.press("?")
    assert browser.run("return document.getElementById('keys').open")
    browser.press(Keys.ESCAPE)
    assert not browser.run("return document.getElementById('keys').open")
    browser.press("t")
    assert browser.run("return document.documentElement.dataset.theme") == "light"
    browser.run("localStorage.clear()")
    assert browser.complaints() == []


def test_everything_about_an_attempt_is_there(browser: Browser, site: str, measured: Run) -> None:
    browser.open(f"{site}/run/{measured.id}#attempt-3")
    browser.until(lambda: browser.selected() == "attempt-3 source", "the link to an attempt")
    browser.until(
        lambda: any("234 of 2,304 cells" in text for text in browser.texts("#attempt-3 figcaption")),
        "the picture of where it is wrong",
    )
    assert browser.texts("#attempt-3 .pointed")[0].startswith("lost-last-block")
    assert browser.run("return document.querySelector('#attempt-3 .row.hit').id") == "attempt-3-L9"
    browser.press("d")
    assert [text for text in browser.texts("#attempt-3 .row.added code") if "version 3" in text]
    assert [text for text in browser.texts("#attempt-3 .row.removed code") if "version 2" in text]
    browser.press("a")
    assert "gpt-oss-120b" in browser.texts("#attempt-3-answer dl")[0]
    assert browser.count("#attempt-3-answer details:not([open])") == 1
    assert "$0.0126" in browser.texts("#attempt-3-answer dl")[0]
    browser.press("p")
    assert "Keep to the interface." in browser.texts("#attempt-3-prompt pre")[0]
    browser.press("e")
    assert "softmax_kernel 38 0 4096" in " ".join(browser.texts("#attempt-3-evidence tr")).replace("\t", " ")
    browser.open(f"{site}/run/{measured.id}#attempt-7-evidence")
    shown = " ".join(browser.texts("#attempt-7-evidence")).replace("\t", " ")
    for words in ("candidate 0.06605 0.0688", "its own 1", "torch.compile", "95 % interval"):
        assert words in shown
    clipped = "const p = document.getElementById(arguments[0]); return p.scrollHeight > p.clientHeight + 1"
    assert not browser.run(clipped, "attempt-7-evidence")
    chart = browser.texts("#chart text")
    assert {"eager 0.121 ms", "torch.compile 0.094 ms", "floor 0.0559 ms", "did not build"} <= set(chart)
    assert browser.count("#chart a") == 8


def test_a_link_leads_to_a_line(browser: Browser, site: str, measured: Run) -> None:
    browser.open(f"{site}/run/{measured.id}#attempt-4-L15")
    browser.until(lambda: browser.count("#attempt-4-L15.aimed") == 1, "the line is marked")
    top = browser.run("return document.getElementById('attempt-4-L15').getBoundingClientRect().top")
    assert 0 < top < 900
    browser.click('#attempt-4 [data-n="9"]')
    assert browser.run("return location.hash") == "#attempt-4-L9"
    assert browser.count("#attempt-4-L9.aimed") == 1
    browser.driver.back()
    browser.until(lambda: browser.count("#attempt-4-L15.aimed") == 1, "back leads to the line before")


@pytest.mark.parametrize("width", SHOTS)
def test_nothing_is_wider_than_the_window(browser: Browser, site: str, measured: Run, width: int) -> None:
    browser.look(width=width)
    for path in ("/", f"/run/{measured.id}#attempt-3", f"/run/{measured.id}#attempt-7-evidence"):
        browser.open(site + path)
        assert browser.run("return document.documentElement.scrollWidth") <= width


def test_a_run_is_followed_while_it_goes_on(browser: Browser, tmp_path: Path) -> None:
    """Another thread appends; what was chosen stays chosen, and the end of the writer ends the stream."""
    going = runs.write(tmp_path, iter([runs.STARTED]))
    rest = list(runs.events(runs.verdicts()))[1:]
    steps = [threading.Event() for _ in range(4)]

    def append() -> None:
        with going.writer() as writer:
            steps[0].set()
            for upto, event in enumerate(rest):
                if upto in (3, 8):
                    steps[1 + (upto == 8)].wait()
                writer.append(event)
            steps[3].wait()
            writer.append(RunFinished(outcome="verified", best=7, reason="attempt 7 is verified (GPU)"))

    thread = threading.Thread(target=append)
    thread.start()
    try:
        steps[0].wait()
        with served(tmp_path) as site:
            browser.open(f"{site}/run/{going.id}")
            browser.until(lambda: browser.texts(".lead .state") == ["running"], "it is running")
            browser.until(lambda: browser.selected() == "attempt-1 source", "the first attempt comes")
            steps[1].set()
            browser.until(lambda: browser.count("#steps a") == 4, "a mend, a round without code, attempt 3")
            browser.until(lambda: browser.selected().startswith("round-3"), "the newest is shown")
            browser.press("k")
            browser.press("k")
            browser.until(lambda: browser.selected() == "attempt-2 source", "the reader goes back")
            steps[2].set()
            browser.until(lambda: browser.count("#steps a") == 8, "the others come")
            assert browser.selected() == "attempt-2 source"
            assert browser.texts(".lead .state") == ["running"]
            steps[3].set()
            browser.until(lambda: browser.texts(".lead .state") == ["finished"], "it ends")
            assert browser.run("return document.getElementById('news').textContent").startswith("new:")
            assert browser.complaints() == []
    finally:
        for step in steps:
            step.set()
        thread.join()


def test_the_exported_file_opens_from_disk(browser: Browser, measured: Run, tmp_path: Path) -> None:
    file = tmp_path / "run.html"
    size = export.write(measured, file)
    assert size == file.stat().st_size < 2_000_000
    browser.open(f"{file.as_uri()}#attempt-3-L9")
    assert browser.selected() == "attempt-3 source"
    assert browser.count(".aimed") == 1
    browser.press("j")
    browser.press("d")
    assert browser.selected() == "attempt-4 diff"
    assert browser.texts("#summary h1") == ["level1/softmax"]
    assert browser.count('a[href^="/"], a[href^="http"], link, img') == 0
    assert browser.complaints() == []
    assert set(browser.asked_for()) <= {file.as_uri(), f"{file.as_uri()}#attempt-3-L9", "about:blank"}


@pytest.mark.parametrize("width", [1280, 390])
def test_a_search_is_a_tree_on_a_desk_and_in_the_hand(tmp_path: Path, browser: Browser, width: int) -> None:
    run = runs.beam_run(tmp_path)
    browser.look(width=width)
    with served(tmp_path) as site:
        browser.open(f"{site}/run/{run.id}")
        browser.until(lambda: browser.selected() == "attempt-6 source", "the best is shown")
        assert [" ".join(text.split()) for text in browser.texts("#steps .what")] == [
            "1 verified (GPU)", "2 incorrect", "5 verified (GPU)", "3 verified (GPU)", "4 verified (GPU)",
            "6 verified (GPU) best", "round 7: repeated", "round 8: asked",
        ]  # fmt: skip
        assert browser.texts("#steps .asked") == [
            "generate", "generate", "repair after round 2", "generate", "optimise after round 3",
            "optimise after round 4", "combine of rounds 6 and 1", "optimise after round 6",
        ]  # fmt: skip
        places = browser.run(
            "return [...document.querySelectorAll('#steps a')].map(a => a.getBoundingClientRect().left)"
        )
        assert places[0] == places[1] == places[3] < places[2] == places[4] == places[5] < places[6]
        assert browser.run("return document.documentElement.scrollWidth") <= width
        steps = "const steps = document.querySelector('#steps'); return steps.scrollWidth - steps.clientWidth"
        assert browser.run(steps) <= 0


def test_the_newest_of_a_tree_is_followed_wherever_it_stands(browser: Browser, tmp_path: Path) -> None:
    events = list(runs.searched())
    come = threading.Event()
    going = runs.write(tmp_path, iter(events[:7]))

    def append() -> None:
        with going.writer() as writer:
            held.set()
            come.wait()
            for event in events[7:16]:
                writer.append(event)
            ended.wait()

    held, ended = threading.Event(), threading.Event()
    thread = threading.Thread(target=append)
    thread.start()
    try:
        held.wait()
        with served(tmp_path) as site:
            browser.open(f"{site}/run/{going.id}#attempt-2")
            browser.until(lambda: browser.selected() == "attempt-2 source", "the second line is looked at")
            come.set()
            browser.until(lambda: browser.count("#steps a") == 5, "the others come")
            browser.until(lambda: browser.selected() == "attempt-5 source", "the newest is shown")
            assert browser.texts("#steps .what")[2].startswith("5")
    finally:
        come.set()
        ended.set()
        thread.join()
