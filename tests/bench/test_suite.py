"""Which problems a suite holds."""

from pathlib import Path

import pytest

from agent.bench import Case, cases
from agent.errors import UsageError


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for level, count in ((1, 12), (2, 3)):
        folder = tmp_path / "KernelBench" / f"level{level}"
        folder.mkdir(parents=True)
        for number in range(1, count + 1):
            (folder / f"{number}_something.py").touch()
        (folder / "README.md").touch()
    return tmp_path


def addresses(found: tuple[Case, ...]) -> list[str]:
    return [case.address for case in found]


def test_levels_in_the_order_of_their_numbers(checkout: Path) -> None:
    found = cases("kernelbench:1-2", checkout)
    assert addresses(found)[:3] == ["kernelbench:1/1", "kernelbench:1/2", "kernelbench:1/3"]
    assert len(found) == 15
    assert {case.group for case in found} == {"level 1", "level 2"}
    assert addresses(cases("kernelbench:2", checkout)) == [f"kernelbench:2/{n}" for n in (1, 2, 3)]


def test_every_fifth_of_each_group(checkout: Path) -> None:
    found = cases("kernelbench:1-2", checkout, every=3)
    assert addresses(found) == [f"kernelbench:{one}" for one in ("1/3", "1/6", "1/9", "1/12", "2/3")]


def test_a_list_names_problems_suites_and_what_to_leave_out(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").touch()
    listed = tmp_path / "list.toml"
    listed.write_text(
        'problems = ["mine.py", "level1/softmax"]\nsuites = ["kernelbench:2"]\nskip = ["2/2"]\n'
    )
    found = cases(str(listed), checkout)
    assert addresses(found) == [
        str(tmp_path / "mine.py"),
        "level1/softmax",
        "kernelbench:2/1",
        "kernelbench:2/3",
    ]
    listed.write_text('suites = ["kernelbench:1"]\nonly = ["1/1"]\n')
    assert addresses(cases(str(listed), checkout)) == [f"kernelbench:1/{n}" for n in (1, 10, 11, 12)]


def test_a_folder_and_the_shipped_references(tmp_path: Path) -> None:
    for name in ("b.py", "deep/a.py", "_hidden.py", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = cases(str(tmp_path))
    assert addresses(found) == [str(tmp_path / "b.py"), str(tmp_path / "deep" / "a.py")]
    assert [case.group for case in found] == [tmp_path.name, "deep"]
    assert Case(address="level1/softmax", group="level1") in cases("references")


@pytest.mark.parametrize(
    ("suite", "said"),
    [
        ("kernelbench:9", "contains no KernelBench/level9"),
        ("nothing", "no suite nothing; give kernelbench:LEVEL"),
        ("missing.toml", "cannot read missing.toml"),
        ("{broken}", "is no TOML"),
        ("{unknown}", "problemz"),
        ("{empty}", "holds no problem"),
    ],
)
def test_what_is_no_suite_is_said_in_one_line(checkout: Path, tmp_path: Path, suite: str, said: str) -> None:
    texts = {"broken": "problems = [", "unknown": 'problemz = ["a"]', "empty": "problems = []"}
    for name, text in texts.items():
        (tmp_path / f"{name}.toml").write_text(text)
    suite = suite.format(**{name: str(tmp_path / f"{name}.toml") for name in texts})
    with pytest.raises(UsageError, match=said) as raised:
        cases(suite, checkout)
    assert "\n" not in str(raised.value)


def test_without_a_checkout(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="set KERNELBENCH_ROOT"):
        cases("kernelbench:1", None)
