"""From addresses to files, and from files to text: no child process is started here."""

from pathlib import Path

import pytest

from agent import problems, resources
from agent.errors import ProblemError
from agent.problems import finding

WHOLE = "class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n"


def refused(call: str, root: Path | None = None) -> str:
    """The one line that an address earns."""
    with pytest.raises(ProblemError) as caught:
        finding.source(problems.path(call, root))
    message = str(caught.value)
    assert caught.value.exit_code == 2
    assert "\n" not in message
    return message


def test_every_reference_of_the_levels_is_shipped() -> None:
    assert problems.names() == (
        "level1/gelu",
        "level1/group_norm",
        "level1/layer_norm",
        "level1/logsumexp",
        "level1/matmul",
        "level1/rms_norm",
        "level1/softmax",
        "level2/conv_group_norm_tanh_hardswish_residual_logsumexp",
        "level2/linear_group_norm_min_bias",
    )


@pytest.mark.parametrize("address", ["level1/group_norm", "group_norm"])
def test_a_shipped_name_and_its_unique_tail_lead_to_the_same_file(address: str) -> None:
    file = problems.path(address)
    assert file == resources.folder("references") / "level1/group_norm.py"
    assert finding.name(file) == "level1/group_norm"


def test_a_path_wins_and_is_named_by_its_stem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "softmax").write_text(WHOLE)
    monkeypatch.chdir(tmp_path)
    assert problems.path("softmax") == Path("softmax")
    assert finding.name(Path("softmax")) == "softmax"


def test_an_unknown_name_lists_near_ones() -> None:
    assert refused("level1/sofmax") == (
        "level1/sofmax is neither a file nor a shipped reference; did you mean level1/softmax?"
    )
    assert "level1/gelu, level1/group_norm" in refused("zzzzqqqq")


def test_a_tail_of_two_references_is_ambiguous(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for level in ("level1", "level2"):
        (tmp_path / level).mkdir()
        (tmp_path / level / "norm.py").write_text(WHOLE)
    monkeypatch.setattr(resources, "folder", lambda kind: tmp_path)
    assert refused("norm") == "norm is ambiguous: level1/norm, level2/norm; name one of them"
    assert problems.path("level2/norm") == tmp_path / "level2/norm.py"


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    assert refused(str(tmp_path)) == f"{tmp_path} is a directory; give a reference file inside it"
    assert refused(str(tmp_path / "a.py")).startswith(f"{tmp_path / 'a.py'} does not exist; give a reference")
    assert refused("/dev/null") == "/dev/null is not a regular file; give a Python file"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", " is empty; a reference defines Model, get_inputs, get_init_inputs"),
        (b" \n\n", " is empty; a reference defines Model, get_inputs, get_init_inputs"),
        (b"x = 1\n\x7fELF\x00\x00", ":2: binary, not Python source"),
        (b"x = 1\n\xff\xfe", ":2: not UTF-8 text; a reference is Python source"),
        (b"import torch\nclass Model(:\n", ":2: syntax error: invalid syntax"),
        (b"x = 1\nreturn x\n", ":2: syntax error: 'return' outside function"),
        (
            b"def get_inputs(): ...\ndef get_init_inputs(): ...\n",
            ":2: ends without Model; a reference defines Model, get_inputs, get_init_inputs",
        ),
        (
            b"class Model: ...\n",
            ":1: ends without get_inputs and get_init_inputs; "
            "a reference defines Model, get_inputs, get_init_inputs",
        ),
        (b"#" * (2**20 + 1), " is 1,048,577 bytes; a reference is Python source of at most 1 MiB"),
    ],
    ids=["empty", "blank", "binary", "encoding", "syntax", "compile", "no Model", "no functions", "huge"],
)
def test_a_file_that_is_no_reference(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "problem.py"
    file.write_bytes(content)
    assert refused(str(file)) == f"{file}{message}"


def test_deep_nesting_is_refused_and_not_a_crash(tmp_path: Path) -> None:
    file = tmp_path / "deep.py"
    file.write_text("x = " + "-" * 100_000 + "1\n" + WHOLE)
    assert refused(str(file)).startswith(str(file))


def test_an_unreadable_file_says_why(tmp_path: Path) -> None:
    file = tmp_path / "gone.py"
    with pytest.raises(ProblemError, match=r"gone.py cannot be read: No such file or directory$"):
        finding.source(file)


def test_parts_may_be_bound_in_any_way(tmp_path: Path) -> None:
    file = tmp_path / "problem.py"
    file.write_bytes(
        b"\xef\xbb\xbfimport x as get_inputs\r\nif x:\r\n    class Model: ...\r\nget_init_inputs = list\r\n"
    )
    assert finding.source(file).startswith("import x as get_inputs\nif x:\n")


def test_kernelbench_addresses(tmp_path: Path) -> None:
    folder = tmp_path / "KernelBench" / "level1"
    folder.mkdir(parents=True)
    (folder / "3_Softmax.py").write_text(WHOLE)
    (folder / "35_GroupNorm_.py").write_text(WHOLE)
    assert problems.path("kernelbench:1/3", tmp_path) == folder / "3_Softmax.py"
    assert problems.path("kernelbench:level1/35", folder.parent) == folder / "35_GroupNorm_.py"
    assert refused("kernelbench:1/4", tmp_path) == f"kernelbench:1/4: {folder} has no files named 4_*.py"
    assert refused("kernelbench:2/1", tmp_path).startswith(f"{tmp_path} contains no KernelBench/level2;")
    assert "set KERNELBENCH_ROOT" in refused("kernelbench:1/3")
    assert "write kernelbench:LEVEL/ID with two numbers" in refused("kernelbench:softmax", tmp_path)
