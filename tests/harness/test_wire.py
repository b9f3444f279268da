"""Values survive the border; files that are not what was promised do not."""

import os
import types
from pathlib import Path
from typing import Any

import pytest
import torch

from agent.harness.worker import wire


def test_round_trip(tmp_path: Path) -> None:
    value = [
        torch.randn(3, 4).t(),
        {"half": torch.randn(5).half(), "flags": torch.tensor([True, False])},
        (torch.tensor(7), torch.empty(0, 3), torch.randn(2).bfloat16()),
        1,
        2.5,
        None,
        "text",
        torch.float16,
    ]
    back = wire.load(wire.dump(value, tmp_path, "x"), tmp_path)
    assert torch.equal(back[0], value[0])  # type: ignore[arg-type]
    assert back[1]["flags"].tolist() == [True, False]
    assert [t.dtype for t in back[2]] == [torch.int64, torch.float32, torch.bfloat16]
    assert back[2][1].shape == (0, 3)
    assert back[3:] == [1, 2.5, None, "text", torch.float16]


class Settings:
    width = 8

    def __init__(self) -> None:
        self.rate = 0.5
        self.activation = torch.nn.GELU
        self.inner = types.SimpleNamespace(names=["a"], device=torch.device("cpu"))

    @property
    def twice(self) -> int:
        return 2 * self.width

    def method(self) -> int:
        return self.width


def test_a_configuration_passes_by_what_it_holds(tmp_path: Path) -> None:
    description = wire.dump([Settings(), torch.nn.functional.relu], tmp_path, "x")
    back, function = wire.load(description, tmp_path)
    assert (back.width, back.rate, back.twice) == (8, 0.5, 16)
    assert back.activation is torch.nn.GELU
    assert function is torch.nn.functional.relu
    assert back.inner.names == ["a"]
    assert back.inner.device == torch.device("cpu")
    with pytest.raises(wire.WireError):  # no candidate may send one
        wire.checked(description)


def test_other_types_are_refused(tmp_path: Path) -> None:
    with pytest.raises(wire.WireError, match="set cannot cross"):
        wire.dump([{1}], tmp_path, "x")


def test_a_file_of_another_size_a_link_and_a_pipe_are_refused(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(b"\0" * 12)
    with pytest.raises(wire.WireError, match="not a plain file of 16 bytes"):
        wire.read_tensor(tmp_path / "short", (4,), "float32")
    (tmp_path / "link").symlink_to(tmp_path / "short")
    with pytest.raises(wire.WireError, match="cannot be read"):
        wire.read_tensor(tmp_path / "link", (3,), "float32")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(wire.WireError, match="not a plain file"):
        wire.read_tensor(tmp_path / "pipe", (3,), "float32")
    with pytest.raises(wire.WireError, match="no dtype"):
        wire.read_tensor(tmp_path / "short", (3,), "Generator")


def test_a_link_where_a_tensor_is_to_be_written_is_replaced(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    for place in ("draw.0", "draw.1"):
        (tmp_path / place).symlink_to(victim)
    os.mkfifo(tmp_path / "draw.2")
    wire.dump([torch.ones(2)] * 3, tmp_path, "draw")
    assert victim.read_text() == "kept"
    assert [(tmp_path / f"draw.{n}").stat().st_size for n in range(3)] == [8, 8, 8]


DEEP: list[Any] = ["tensor", 0]
for _ in range(40):
    DEEP = ["list", [DEEP]]
GOOD = {"stem": "x", "tree": ["tensor", 0], "tensors": [{"shape": [2], "dtype": "float32"}]}


@pytest.mark.parametrize(
    "change",
    [
        {"tree": DEEP}, {"tree": ["tensor", 1]}, {"tree": ["list", []]}, {"tree": "ab"}, {"tree": 3},
        {"tree": ["tensor", True]}, {"tree": ["dict", [["a"]]]}, {"tree": ["dict", [[1, ["tensor", 0]]]]},
        {"tree": ["value", {}]}, {"tensors": []}, {"tensors": [{"shape": [2]}]}, {"tensors": {"shape": 1}},
        {"tensors": [{"shape": ["2"], "dtype": "float32"}]}, {"tensors": [{"shape": [-1], "dtype": "x"}]},
        {"tensors": [{"shape": [1 << 60], "dtype": "float32"}]}, {"tensors": None},
    ],
)  # fmt: skip
def test_a_description_that_nobody_makes_is_refused_as_such(change: dict[str, Any]) -> None:
    assert wire.checked(GOOD) == GOOD
    with pytest.raises(wire.WireError):
        wire.checked(GOOD | change)
