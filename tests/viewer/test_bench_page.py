"""The page of a bench: what it shows, that it fills, and that nobody is shut out of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import made
from viewer.browser import Browser, served
from viewer.test_accessible import LOOKS
from viewer.test_site import ask

from agent.bench import Bench, faults

SUITE = ("level1/softmax", "level1/gelu", "level2/mlp")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """One run verified and timed, one that goes on, one not begun."""
    found = made.bench(tmp_path, SUITE)
    made.run(found, f"{SUITE[0]}#1", [made.wrong(), made.verified(made.measured(1.0, 2.0))], tokens=50)
    made.run(found, f"{SUITE[1]}#1", [made.wrong()], "open")
    return found


@pytest.fixture
def site(bench: Bench) -> Iterator[str]:
    with served(bench.runs_dir, bench) as address:
        yield address


def test_the_page_has_every_run_with_a_link_to_it(site: str, bench: Bench) -> None:
    page = ask(site, "/bench")
    assert page.status == 200
    assert "1 of 3 runs are over" in page.text
    assert page.text.count('class="run"') == 2, "a run that has not begun has no page"
    links = [part.partition('"')[0] for part in page.text.split('class="run" href="')[1:]]
    assert [ask(site, link).status for link in links] == [200, 200]
    assert f'<a href="/bench">{bench.id}</a>' in ask(site, "/").text


def test_there_is_no_such_page_without_a_bench(tmp_path: Path) -> None:
    with served(tmp_path) as site:
        assert ask(site, "/bench").status == 404
        assert ask(site, "/bench/live").status == 404


def test_what_others_wrote_stays_text(site: str, bench: Bench) -> None:
    bad = "<script>alert(1)</script>"
    faults.note(bench.path, faults.Fault(label=f"{SUITE[2]}#1", ending="failed", reason=bad))
    text = ask(site, "/bench").text
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


def test_it_fills_while_it_is_looked_at(browser: Browser, site: str, bench: Bench) -> None:
    browser.open(f"{site}/bench")
    assert browser.texts("#summary .count") == ["1 of 3 runs are over"]
    made.run(bench, f"{SUITE[2]}#1", [made.verified(None)])
    browser.until(lambda: browser.texts("#summary .count") == ["2 of 3 runs are over"], "a run that ended")
    assert browser.count(".runs .run") == 3
    assert browser.complaints() == []


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_nobody_is_shut_out(browser: Browser, site: str, scheme: str, width: int) -> None:
    browser.look(scheme, width)
    browser.open(f"{site}/bench")
    assert browser.faults() == []
    assert browser.run("return document.documentElement.scrollWidth") <= width
