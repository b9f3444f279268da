"""axe-core finds nothing serious or critical on any page, in light and dark."""

from pathlib import Path

import pytest
from viewer.browser import Browser, served

from agent.store import Run
from agent.viewer import export

LOOKS = (("light", 1280), ("dark", 420))


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_no_page_shuts_anybody_out(browser: Browser, measured: Run, scheme: str, width: int) -> None:
    browser.look(scheme, width)
    with served(measured.path.parent) as site:
        browser.open(site + "/")
        assert browser.faults() == []
        for step, panels in (("attempt-3", "sdape"), ("attempt-7", "se"), ("round-2", "ap")):
            browser.open(f"{site}/run/{measured.id}#{step}")
            browser.until(lambda: browser.selected() != "", "a step is shown")
            browser.run("document.querySelectorAll('details').forEach(d => { d.open = true })")
            for key in panels:
                browser.press(key)
                browser.run("document.querySelectorAll('details').forEach(d => { d.open = true })")
                assert browser.faults() == []
        browser.press("?")
        assert browser.faults() == []
        # What finds nothing has to be seen to find something.
        browser.run("document.querySelector('#keys button').textContent = ''")
        assert any(fault.startswith("button-name") for fault in browser.faults())


def test_the_exported_file_shuts_nobody_out(browser: Browser, measured: Run, tmp_path: Path) -> None:
    file = tmp_path / "run.html"
    export.write(measured, file)
    for scheme in ("light", "dark"):
        browser.look(scheme)
        browser.open(file.as_uri())
        assert browser.faults() == []
