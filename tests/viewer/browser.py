"""A real browser for the tests: Debian's Chromium, without a window, and what it saw, said and asked for."""

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from selenium import webdriver
from selenium.common.exceptions import NoAlertPresentException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from agent import store
from agent.bench import Bench
from agent.viewer.server import address_of, listening, server_for

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
PATIENCE_S = 200.0
"""For a page on a busy machine; what never comes costs this much once."""
INSTALL = "no Chromium with its driver: apt-get install chromium chromium-driver"


def programs() -> tuple[str, str] | None:
    """Paths of the browser and its driver; None where one is missing."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


class Browser:
    """One window."""

    def __init__(self, browser: str, driver: str) -> None:
        options = Options()
        options.binary_location = browser
        # Of switches only what a root shell and a container need; a headless window has no GPU.
        for switch in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
            options.add_argument(switch)
        if os.geteuid() == 0:
            options.add_argument("--no-sandbox")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        options.unhandled_prompt_behavior = "ignore"
        self.driver = webdriver.Chrome(options=options, service=Service(driver))
        self.look()

    def look(self, scheme: str = "light", width: int = 1280, height: int = 900) -> None:
        """The colours that the system is said to want, and the size of the window in CSS pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def open(self, address: str) -> None:
        # From a blank page, so that an address that differs in its fragment alone is loaded as well.
        self.driver.get("about:blank")
        self.driver.get(address)

    def run(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    def texts(self, selector: str) -> list[str]:
        """What can be read of every element that fits and is shown."""
        script = (
            "const found = [...document.querySelectorAll(arguments[0])];"
            "return found.map(e => e.innerText ?? e.textContent).filter(t => t)"
        )
        return [str(text).strip() for text in self.run(script, selector)]

    def count(self, selector: str) -> int:
        return int(self.run("return document.querySelectorAll(arguments[0]).length", selector))

    def press(self, keys: str) -> None:
        """Keys to what has the focus."""
        self.driver.switch_to.active_element.send_keys(keys)

    def click(self, selector: str) -> None:
        self.driver.find_element(By.CSS_SELECTOR, selector).click()

    def until(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"not within {PATIENCE_S:.0f} s: {what}; {self._state()}"
            time.sleep(0.05)

    def _state(self) -> str:
        """What the page says for itself, for the message of a test that waited in vain."""
        said = self.run("return document.getElementById('news')?.textContent")
        return f"at {self.driver.current_url}, {said!r}, {self.texts('#steps a')}, {self.complaints()}"

    def selected(self) -> str:
        """`attempt-3 diff`: the step and the panel that are shown."""
        return str(
            self.run(
                "const a = [...document.querySelectorAll('#details > article')].find(e => !e.hidden);"
                "return a ? a.id + ' ' + a.querySelector('[aria-selected=true]').dataset.panel : ''"
            )
        )

    def complaints(self) -> list[str]:
        """What the console said since it was last asked: errors, and every violation of the policy."""
        return [str(entry["message"]) for entry in self._log("browser")]

    def asked_for(self) -> list[str]:
        """Every address that was requested since it was last asked."""
        found = []
        for entry in self._log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(str(message["params"]["request"]["url"]))
        return found

    def has_dialog(self) -> bool:
        try:
            return bool(self.driver.switch_to.alert)
        except NoAlertPresentException:
            return False

    def faults(self) -> list[str]:
        """What axe finds that is serious or critical: rule and element."""
        if not self.run("return 'axe' in window"):
            self.run(AXE.read_text(encoding="utf-8"))
        script = (
            "const done = arguments[0];"
            "axe.run(document, {resultTypes: ['violations']})"
            ".then(found => done(found.violations), error => done(`${error}`))"
        )
        found = self.driver.execute_async_script(script)
        assert isinstance(found, list), found
        return [
            f"{rule['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
            for rule in found
            if rule["impact"] in ("serious", "critical")
            for node in rule["nodes"]
        ]

    def _log(self, kind: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self.driver.execute("getLog", {"type": kind})["value"]
        return entries

    def close(self) -> None:
        self.driver.quit()


@contextmanager
def served(runs_dir: Path, run: store.Run | Bench | None = None) -> Iterator[str]:
    """The address of a server in a thread of its own, without a slash behind it."""
    with listening(0) as listener:
        server = server_for(runs_dir, run, listener)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            parts = urlsplit(address_of(listener, None))
            yield f"{parts.scheme}://{parts.netloc}"
        finally:
            server.should_exit = True
            thread.join()
