"""The pictures of docs/viewer.md, from the recorded run: `PYTHONPATH=tests python -m viewer.screenshots`."""

import sys
from pathlib import Path

from viewer.browser import INSTALL, Browser, programs, served

from agent import resources

FOLDER = Path(__file__).parent.parent.parent / "docs" / "viewer"
MOST_BYTES = 200_000
PICTURES = (
    ("run.png", "", "light", 1280, 1040),
    ("attempt.png", "#attempt-3-diff", "dark", 1280, 900),
)


def main() -> int:
    found = programs()
    if found is None:
        sys.stderr.write(f"error: {INSTALL}\n")
        return 3
    FOLDER.mkdir(exist_ok=True)
    browser = Browser(*found)
    try:
        with served(resources.folder("recorded")) as site:
            for name, fragment, scheme, width, height in PICTURES:
                browser.look(scheme, width, height)
                browser.open(f"{site}/run/group_norm{fragment}")
                browser.until(lambda: browser.selected() != "", "a step is shown")
                browser.run("if (arguments[0]) document.querySelector('.work').scrollIntoView()", fragment)
                file = FOLDER / name
                browser.driver.save_screenshot(str(file))
                print(f"{file.name}: {file.stat().st_size / 1000:.0f} kB")
                if file.stat().st_size > MOST_BYTES:
                    sys.stderr.write(f"error: {file} is larger than {MOST_BYTES / 1000:.0f} kB\n")
                    return 1
    finally:
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
