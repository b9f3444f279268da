"""One run as a single, self-contained HTML file that opens from disk and fetches nothing.

Its policy allows only this package's style and script, by their hashes. Text from a model could not run even
if it were not escaped.
"""

import base64
import hashlib
from importlib import resources
from pathlib import Path

from markupsafe import Markup

from agent import store
from agent.store.disk import write_durably, writing
from agent.viewer.pages import Inline, run_file
from agent.viewer.run_view import RunView


def write(run: store.Run, file: Path) -> int:
    """Write the whole file or none of it; return its size in bytes. Raises EnvironmentFault."""
    content = document(run).encode("utf-8", "replace")
    with writing(file):
        write_durably(file, content)
    return len(content)


def document(run: store.Run) -> str:
    log = run.read()
    style, script = asset("viewer.css"), asset("viewer.js")
    policy = (
        f"default-src 'none'; style-src '{_source(style)}'; script-src '{_source(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    inline = Inline(Markup(style), Markup(script), policy)
    return run_file(RunView(run, log, store.state_of(run, log)), inline)


def asset(name: str) -> str:
    """Return the text of a file in `static/`."""
    return resources.files("agent.viewer").joinpath("static", name).read_text(encoding="utf-8")


def _source(content: str) -> str:
    """Return the hash by which a content-security policy names an inline style or script."""
    digest = hashlib.sha256(content.encode("utf-8")).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")
