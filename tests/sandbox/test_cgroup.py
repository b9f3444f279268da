"""Where control groups can be made, and what is written into one; the files stand in for the kernel's."""

import sys
from pathlib import Path

import pytest
from sandbox.boxes import child

from agent.sandbox import Box, Level, Limits, cgroup


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "fs"
    (place / "user.slice" / "session").mkdir(parents=True)
    (place / "user.slice" / "cgroup.subtree_control").write_text("cpu memory pids\n")
    (place / "cgroup.subtree_control").write_text("cpu pids\n")
    return place


@pytest.mark.parametrize(
    ("own", "found"),
    [
        ("0::/user.slice/session\n", "user.slice"),
        ("4:memory:/x\n0::/user.slice/session\n", "user.slice"),
        ("0::/user.slice\n", None),
        ("0::/\n", None),
        ("4:memory:/x\n", None),
    ],
)
def test_groups_are_made_beside_our_own_where_both_controllers_are(
    root: Path, own: str, found: str | None
) -> None:
    told = root / "own"
    told.write_text(own)
    assert cgroup.parent(root, told) == (root / found if found else None)


def test_a_group_has_the_limits_and_the_command(tmp_path: Path) -> None:
    folder, groups = tmp_path / "candidate", tmp_path / "groups"
    folder.mkdir()
    groups.mkdir()
    limits = Limits(memory_bytes=1 << 30, private_bytes=1 << 20, processes=50)
    box = Box(folder, level=Level("process", groups=groups))
    with child("input(); say({})", box, limits) as worker:
        assert worker.ask({}, 30) == {}
    (made,) = groups.iterdir()
    written = {path.name: path.read_text() for path in made.iterdir()}
    assert written == {
        "memory.oom.group": "1",
        "memory.max": str((1 << 30) + (1 << 20)),
        "memory.swap.max": "0",
        "pids.max": "50",
        "cgroup.procs": "0",
    }


def test_a_kill_for_memory_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(cgroup.__file__).parent / "enter"))
    import group  # type: ignore[import-not-found]

    try:
        (tmp_path / "memory.events").write_text("low 0\noom 1\noom_kill 0\n")
        assert not group.ran_out_of_memory({"group": str(tmp_path)})
        (tmp_path / "memory.events").write_text("low 0\noom 1\noom_kill 2\n")
        assert group.ran_out_of_memory({"group": str(tmp_path)})
    finally:
        for name in ("group", "system"):
            sys.modules.pop(name, None)
