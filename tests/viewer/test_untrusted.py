"""Nothing that a model or a candidate wrote runs, loads, hides or steers; and nothing writes to the store."""

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from viewer.browser import Browser, served
from viewer.hostile import ELSEWHERE, LONG_LINE, hostile_run

from agent import store
from agent.store import Run
from agent.store.index import INDEX
from agent.viewer import export

STEPS = ("attempt-1", "attempt-2", "attempt-3", "round-2")
PANELS = ("source", "diff", "answer", "prompt", "evidence")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return hostile_run(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def site(hostile: Run) -> Iterator[str]:
    with served(hostile.path.parent) as address:
        yield address


def fingerprint(folder: Path) -> str:
    """Of every name and content, the times of change too; the index is derived and no part of the store."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if not path.name.startswith(INDEX)):
        content = path.read_bytes() if path.is_file() else b""
        digest.update(f"{path} {path.stat().st_mtime_ns if path.is_file() else 0} ".encode() + content)
    return digest.hexdigest()


def _shows(browser: Browser, step: str) -> bool:
    return browser.selected().split(" ")[0] == step


def assert_harmless(browser: Browser) -> None:
    """The page is made of our own markup: one script of ours, links into this page or site, no handlers."""
    assert not browser.has_dialog()
    assert browser.run("return window.ran ?? null") is None
    assert browser.count("script") == 1
    assert (
        browser.count("img, iframe, base, object, embed, meta[http-equiv=refresh], form[action^=http]") == 0
    )
    handlers = (
        "return [...document.querySelectorAll('*')]"
        ".filter(e => [...e.attributes].some(a => /^on/i.test(a.name))).length"
    )
    assert browser.run(handlers) == 0
    links = browser.run("return [...document.querySelectorAll('a')].map(a => a.getAttribute('href'))")
    assert [link for link in links if not link.startswith(("#", "/"))] == []
    text = str(browser.run("return document.body.textContent"))
    assert "⟨ESC⟩[31mred" in text
    assert "⟨U+202E⟩reversed⟨U+2066⟩ ⟨NUL⟩ nul" in text
    assert "{{ 7 * 191 }}" in text
    assert not set(text) & set("\x1b\x00\x07\x9b\u202e\u2066\u200b\ufeff")


def test_a_hostile_run_is_shown_harmlessly(browser: Browser, site: str, hostile: Run) -> None:
    before = fingerprint(hostile.path.parent)
    browser.open(f"{site}/run/{hostile.id}")
    for step in STEPS:
        browser.run("location.hash = arguments[0]", f"#{step}")
        browser.until(partial(_shows, browser, step), step)
        for panel in PANELS:
            browser.press(panel[0])
        assert_harmless(browser)
    browser.open(site + "/")
    assert browser.count(".runs .run") == 1 + len(store.recorded_runs())
    assert browser.count("script") == 1
    # A violation of the policy would stand here too: what is escaped does not even try.
    assert browser.complaints() == []
    asked = [url for url in browser.asked_for() if not url.startswith((site, "about:blank"))]
    assert asked == []
    assert fingerprint(hostile.path.parent) == before


def test_a_long_line_is_cut_and_its_text_is_a_download(browser: Browser, site: str, hostile: Run) -> None:
    browser.open(f"{site}/run/{hostile.id}#attempt-1-answer")
    browser.until(lambda: browser.selected() == "attempt-1 answer", "the answer is shown")
    browser.until(lambda: browser.texts("#attempt-1-answer .cut"), "the long line is cut")
    shown = browser.texts("#attempt-1-answer .prose")[-1]
    assert len(shown) < 10_000
    assert "more characters" in shown
    left_out = browser.texts("#attempt-1-answer .cut")[-1]
    assert int(left_out.split(" ")[0].replace(",", "")) > LONG_LINE - 200_000
    links = browser.driver.find_elements(By.CSS_SELECTOR, "#attempt-1-answer .raw a")
    raw = links[-1].get_attribute("href")
    assert raw == f"{site}/run/{hostile.id}/raw/answer-1"
    headers = browser.run(
        "const r = new XMLHttpRequest(); r.open('GET', arguments[0], false); r.send();"
        "return [r.getResponseHeader('content-type'), r.getResponseHeader('content-disposition'),"
        " r.getResponseHeader('x-content-type-options'), r.responseText.length]",
        raw,
    )
    assert headers[:3] == ["text/plain; charset=utf-8", 'attachment; filename="answer-1.txt"', "nosniff"]
    assert headers[3] > LONG_LINE


def test_the_exported_file_is_as_harmless(browser: Browser, hostile: Run, tmp_path: Path) -> None:
    file = tmp_path / "hostile.html"
    assert export.write(hostile, file) < 2_000_000
    for step in STEPS:
        browser.open(f"{file.as_uri()}#{step}")
        assert browser.selected().split(" ")[0] == step
        assert_harmless(browser)
    assert browser.complaints() == []
    assert [url for url in browser.asked_for() if not url.startswith(("file:", "about:blank"))] == []
    assert ELSEWHERE in file.read_text(encoding="utf-8")


def test_what_is_not_ours_could_not_run(browser: Browser, site: str, hostile: Run, tmp_path: Path) -> None:
    """The second wall: markup that did get into a page is stopped by its policy."""
    file = tmp_path / "hostile.html"
    export.write(hostile, file)
    inject = (
        "const s = document.createElement('script'); s.textContent = 'window.ran = 9';"
        "document.body.append(s);"
        "const d = document.createElement('div');"
        "d.innerHTML = '<img src=\"' + arguments[0] + '\" onerror=\"window.ran=8\">'; document.body.append(d)"
    )
    for address in (f"{site}/run/{hostile.id}", file.as_uri()):
        browser.open(address)
        browser.complaints()
        browser.run(inject, ELSEWHERE + "/i")
        browser.until(lambda: "Content Security Policy" in " ".join(browser.complaints()), "it is refused")
        assert browser.run("return window.ran ?? null") is None


def test_a_killed_server_leaves_the_store_as_it_was(browser: Browser, measured: Run) -> None:
    runs_dir = measured.path.parent
    before = fingerprint(runs_dir)
    command = [sys.executable, "-m", "agent.cli", "view", measured.id, "--runs-dir", str(runs_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        browser.open(address)
        assert browser.selected() == "attempt-7 source"
        browser.open("about:blank")
        os.kill(server.pid, signal.SIGKILL)
    assert fingerprint(runs_dir) == before
