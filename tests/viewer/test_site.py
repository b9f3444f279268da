"""What the server answers, and to whom; no browser is needed for these."""

import contextlib
import http.client
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from viewer import runs
from viewer.browser import served

from agent.store import Run, open_run
from agent.viewer.app import HEADERS


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str


def ask(site: str, path: str, method: str = "GET", host: str | None = None) -> Answer:
    address = urlsplit(site).netloc
    connection = http.client.HTTPConnection(address, timeout=200)
    try:
        connection.request(method, path, headers={"Host": host if host is not None else address})
        answer = connection.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, headers, answer.read().decode())
    finally:
        connection.close()


@pytest.fixture
def site(measured: Run) -> Iterator[str]:
    with served(measured.path.parent) as address:
        yield address


@pytest.mark.parametrize(
    "host", ["elsewhere.example", "127.0.0.1", "127.0.0.1:1", "", "[::1]:{port}", "x:{port}"]
)
def test_only_its_own_address_is_answered(site: str, measured: Run, host: str) -> None:
    """A page elsewhere whose name resolves to this machine learns nothing, whatever it asks for."""
    port = urlsplit(site).port
    for path in ("/", f"/run/{measured.id}", f"/run/{measured.id}/raw/source-1", "/static/viewer.js"):
        answer = ask(site, path, host=host.format(port=port))
        assert (answer.status, "softmax" in answer.text) == (403, False)
    assert ask(site, "/", host=f"localhost:{port}").status == 200


def test_every_answer_carries_the_policy(site: str, measured: Run) -> None:
    for path, status in (
        ("/", 200), (f"/run/{measured.id}", 200), (f"/run/{measured.id}/part/attempt-3", 200),
        (f"/run/{measured.id}/raw/prompt-1", 200), ("/static/viewer.css", 200), ("/nothing", 404),
        ("/run/nothing", 404), (f"/run/{measured.id}/part/attempt-99", 404),
        (f"/run/{measured.id}/raw/source-99", 404), ("/static/nothing", 404),
    ):  # fmt: skip
        answer = ask(site, path)
        assert answer.status == status
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert ask(site, "/", "POST").status == 405
    assert ask(site, "/", "DELETE").status == 405


@pytest.mark.parametrize(
    "name", ["..", ".", "..%2f..%2fetc", "%2fetc", "%2e%2e%2fruns", "a%00b", "-x", "%2e%2e", "x" * 5000]
)
def test_a_run_is_no_path(site: str, name: str) -> None:
    assert ask(site, f"/run/{name}").status == 404
    assert ask(site, f"/static/{name}").status == 404


def test_a_run_given_by_its_path_is_shown_and_no_other_there(tmp_path: Path) -> None:
    given, beside = runs.measured_run(tmp_path / "there"), runs.measured_run(tmp_path / "there")
    with served(tmp_path / "empty", open_run(str(given.path), tmp_path / "empty")) as site:
        assert ask(site, f"/run/{given.id}").status == 200
        assert ask(site, f"/run/{beside.id}").status == 404
        assert ask(site, "/run/group_norm").status == 200


def test_raw_texts_are_what_was_stored(site: str, measured: Run) -> None:
    log = measured.read()
    source = ask(site, f"/run/{measured.id}/raw/source-3")
    assert source.text == log.attempts[2].candidate.source
    assert source.headers["content-type"] == "text/plain; charset=utf-8"
    assert source.headers["content-disposition"] == 'attachment; filename="source-3.txt"'
    assert "no code here" in ask(site, f"/run/{measured.id}/raw/answer-2").text
    assert ask(site, f"/run/{measured.id}/raw/reference").text == runs.PROBLEM.source
    for name in (
        "source-",
        "source-x",
        "source-999999999999",
        "prompt-99",
        "reasoning-",
        "x",
        "source-1-2",
        "source-%EF%BC%93",
    ):
        assert ask(site, f"/run/{measured.id}/raw/{name}").status == 404


def test_a_damaged_run_is_shown_with_what_is_wrong(site: str, measured: Run) -> None:
    events = measured.path / "events.jsonl"
    lines = events.read_bytes().split(b"\n")
    lines[3] = b"{broken"
    events.write_bytes(b"\n".join(lines) + b'{"half')
    (measured.path / "run.toml").write_text("id = <script>")
    page = ask(site, f"/run/{measured.id}")
    assert page.status == 200
    assert "events.jsonl, line 4: not JSON" in page.text
    assert "ends in the middle of an event" in page.text
    assert "damaged" in ask(site, "/").text


def test_the_news_of_a_run_that_has_ended_ends(site: str, measured: Run) -> None:
    size = (measured.path / "events.jsonl").stat().st_size
    stream = ask(site, f"/run/{measured.id}/live?seen={size - 1}")
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert stream.text == f"retry: 2000\n\nevent: changed\ndata: {size}\n\nevent: ended\ndata: \n\n"
    assert "changed" not in ask(site, f"/run/{measured.id}/live?seen={size}").text


def test_the_server_ends_while_somebody_listens(tmp_path: Path) -> None:
    run = runs.write(tmp_path, iter([runs.STARTED]))
    with run.writer(), served(tmp_path) as site:
        connection = http.client.HTTPConnection(urlsplit(site).netloc, timeout=200)
        connection.request("GET", f"/run/{run.id}/live")
        stream = connection.getresponse()
        told = [stream.readline() for _ in range(3)]
    with contextlib.closing(connection):
        rest = stream.read().decode()
    assert told == [b"retry: 2000\n", b"\n", b"event: changed\n"]
    assert "ended" not in rest
