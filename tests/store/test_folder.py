"""Making runs and finding them again."""

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transcripts import SETTINGS, attempt, prompt

from agent import __version__
from agent.errors import EnvironmentFault, UsageError
from agent.records import Evaluated, Prompted
from agent.store import Run, RunSettings, create, folder, open_run, resolve_attempt


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of recorded runs with one in it, `good`."""
    recorded = tmp_path / "shipped"
    create(recorded, SETTINGS).path.rename(recorded / "good")
    monkeypatch.setattr("agent.resources.folder", lambda kind: recorded)
    return recorded


def test_a_new_run_says_what_it_was_asked_to_do(runs: Path) -> None:
    asked = SETTINGS.model_copy(
        update={"model": 'a "model"\n', "options": {"gpu": "H200", "temperature": 0.5}}
    )
    run = create(runs, asked)
    assert re.fullmatch(r"\d{8}-\d{6}-softmax-[0-9a-f]{4}", run.id)
    assert run.info.settings == asked
    assert run.info.id == run.id
    assert run.info.version == __version__
    assert run.read().events == ()
    assert sorted(path.name for path in run.path.iterdir()) == ["blobs", "events.jsonl", "run.toml"]


text = st.text(alphabet=st.characters(codec="utf-8"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(
    text,
    st.none() | text,
    st.dictionaries(text, text | st.integers() | st.booleans() | st.floats(allow_nan=False)),
)
def test_any_settings_come_back(
    tmp_path: Path, name: str, model: str | None, options: dict[str, str | int | float | bool]
) -> None:
    options = {key: value for key, value in options.items() if value not in (float("inf"), float("-inf"))}
    asked = SETTINGS.model_copy(
        update={"problem": name, "problem_name": name, "model": model, "options": options}
    )
    run = create(tmp_path / "any", asked)
    assert run.info.settings == asked
    assert re.fullmatch(r"[a-z0-9_-]+", run.id)


def test_found_by_id_path_and_unique_prefix(runs: Path, shipped: Path) -> None:
    run = create(runs, SETTINGS)
    for address in (run.id, str(run.path), run.id[:12], run.id[:-1]):
        assert open_run(address, runs).path.resolve() == run.path.resolve()
    assert open_run("recorded/good", runs).path == shipped / "good"
    assert open_run("recorded/good", runs).address == "recorded/good"


def test_a_prefix_of_two_lists_them(runs: Path) -> None:
    names = [create(runs, SETTINGS).id for _ in range(2)]
    with pytest.raises(UsageError, match="is the prefix of 2 runs") as error:
        open_run("2", runs)
    assert all(name in str(error.value) for name in names)


@pytest.mark.parametrize("address", ["nothing", "", "recorded/goof", "/nowhere/at/all", "..", "recorded/"])
def test_an_unknown_run_lists_what_there_is(runs: Path, shipped: Path, address: str) -> None:
    with pytest.raises(UsageError, match="no run .*recorded/good"):
        open_run(address, runs)


def test_a_near_miss_is_offered(runs: Path) -> None:
    run = create(runs, SETTINGS)
    with pytest.raises(UsageError, match=run.id):
        open_run(run.id[:-2] + "zz", runs)


def test_attempts_are_named_by_number(runs: Path) -> None:
    run = create(runs, SETTINGS)
    with run.writer() as writer:
        for number in (1, 2):
            writer.append(Evaluated(round=number, attempt=attempt(number)))
    found, second = resolve_attempt(f"{run.id}:2", runs)
    assert (found.id, second) == (run.id, attempt(2))
    assert resolve_attempt(f"{run.path}:1", runs)[1] == attempt(1)
    with pytest.raises(UsageError, match="no attempt 3; it has: 1, 2"):
        resolve_attempt(f"{run.id}:3", runs)
    with pytest.raises(UsageError, match="RUN:K"):
        resolve_attempt(run.id, runs)


def test_damaged_lines_are_reported_and_the_rest_reads(runs: Path) -> None:
    run = create(runs, SETTINGS)
    with run.writer() as writer:
        for number in range(1, 4):
            writer.append(Prompted(round=number, prompt=prompt("a")))
    file = run.path / "events.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + b"garbage\n" + lines[2] + lines[1])
    log = run.read()
    assert [event.seq for event in log.events] == [0, 2, 1]
    assert [problem.line for problem in log.problems] == [2, 4]
    assert "not JSON" in log.problems[0].reason
    assert "event 1 where 3 belongs" in log.problems[1].reason


def test_a_damaged_manifest_says_where(runs: Path) -> None:
    run = create(runs, SETTINGS)
    (run.path / "run.toml").write_text("id = [")
    with pytest.raises(UsageError, match=r"run\.toml is damaged"):
        _ = run.info
    (run.path / "run.toml").write_text('id = "x"')
    with pytest.raises(UsageError, match="Field required"):
        _ = run.info
    (run.path / "run.toml").unlink()
    with pytest.raises(UsageError, match="cannot read"):
        _ = run.info


def test_too_little_space_is_said_before_anything_is_made(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10 * 2**20))
    with pytest.raises(EnvironmentFault, match="only 10 MB are free"):
        create(runs, SETTINGS)
    assert list(runs.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_exit_3(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFault, match="cannot write"):
        create(tmp_path / "file" / "runs", SETTINGS)


def test_manifest_holds_only_what_was_given(runs: Path) -> None:
    run = create(runs, RunSettings(**SETTINGS.model_dump()))
    assert "model" not in json.dumps(run.info.settings.model_dump(exclude_none=True))
    assert isinstance(run, Run)
    assert folder.MANIFEST == "run.toml"
