"""What a client of `agent mcp` can name, and what it cannot."""

from pathlib import Path

import pytest

from agent.doors.mcp.access import Access
from agent.errors import UsageError


@pytest.fixture
def allowed(tmp_path: Path) -> Access:
    for name in ("references", "candidates", "elsewhere", "runs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one.py").write_text(f"# {name}\n")
    (tmp_path / "candidates" / "link.py").symlink_to(tmp_path / "elsewhere" / "one.py")
    (tmp_path / "candidates" / "folder").symlink_to(tmp_path / "elsewhere")
    return Access(
        runs_dir=tmp_path / "runs", references=(tmp_path / "references",),
        candidates=(tmp_path / "candidates",),
    )  # fmt: skip


def test_files_in_the_allowed_folders_are_read(allowed: Access, tmp_path: Path) -> None:
    assert allowed.candidate("one.py") == "# candidates\n"
    assert allowed.candidate(str(tmp_path / "candidates" / "one.py")) == "# candidates\n"
    assert allowed.reference("one.py") == str(tmp_path / "references" / "one.py")
    assert allowed.reference("softmax") == "level1/softmax"


@pytest.mark.parametrize(
    "path",
    ["link.py", "folder/one.py", "../elsewhere/one.py", "../candidates/../elsewhere/one.py", "/etc/hostname",
     "~/one.py", "", ".", "nothing.py", "/dev/zero", "a\0b", "x" * 5000],
)  # fmt: skip
def test_nothing_else_is(allowed: Access, path: str) -> None:
    with pytest.raises(UsageError):
        allowed.candidate(path)
    with pytest.raises(UsageError):
        allowed.reference(path)


def test_a_reference_is_no_candidate_and_the_other_way_round(allowed: Access, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="allowed folders of candidates"):
        allowed.candidate(str(tmp_path / "references" / "one.py"))
    with pytest.raises(UsageError, match="allowed folders of references"):
        allowed.reference(str(tmp_path / "candidates" / "one.py"))


def test_a_shipped_name_is_not_taken_from_a_file_of_that_name(
    allowed: Access, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "level1").mkdir()
    (tmp_path / "level1" / "softmax").write_text("import os")
    monkeypatch.chdir(tmp_path)
    assert allowed.reference("level1/softmax").endswith("references/level1/softmax.py")


@pytest.mark.parametrize("run", ["..", "../runs", "recorded/../../x", "/etc", "", "a/b", "-\n", "x" * 300])
def test_a_run_is_named_by_its_id(allowed: Access, run: str) -> None:
    with pytest.raises(UsageError):
        allowed.run(run)


def test_a_run_that_is_a_link_to_another_folder_is_refused(allowed: Access, tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "run.toml").write_text("")
    (tmp_path / "runs" / "linked").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="does not lie in the folder of runs"):
        allowed.run("linked")


def test_a_candidate_is_text_of_a_bounded_size(allowed: Access) -> None:
    with pytest.raises(UsageError, match="half a character"):
        allowed.candidate("class ModelNew: pass  # \ud800")
    with pytest.raises(UsageError, match="at most 1 MiB"):
        allowed.candidate("\n" * (2**20 + 1))
